/* SPDX-License-Identifier: Apache-2.0
 * spool_folder.h: the directory of a spool: whose it is, which process has it, and where it lies.
 */
#ifndef STORE_SPOOL_FOLDER_H
#define STORE_SPOOL_FOLDER_H

#include "base/fail.h"

/*
 * Refuse a directory that is a symbolic link, belongs to another user, or can be written to by its
 * group or by everybody: they could change its contents. Checks `base` and everything below it down
 * to `folder`; base NULL: only folder. A directory that does not exist yet will be ours.
 * DEFIB_CONFIG.
 */
MUST_CHECK defib_err folder_ours(const char *base, const char *folder, struct failure *f);
/* Open a directory of ours; it and its missing parents are created (0700) and synced. */
MUST_CHECK defib_err folder_open(const char *path, int *fd, struct failure *f);
/* Own it while *lock is open. DEFIB_REFUSED if another process does; `path` is for the message. */
MUST_CHECK defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f);
/* Open a regular file of the directory for reading and writing, created (0600) if missing. */
MUST_CHECK defib_err folder_file(int folder, const char *name, int *fd, struct failure *f);
/* Refuse a network file system: its locks and syncs do not promise what a spool needs. */
MUST_CHECK defib_err folder_local(int folder, struct failure *f);

#endif
