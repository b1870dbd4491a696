/* SPDX-License-Identifier: Apache-2.0
 * spool_file.h: the few things a spool does with its folder and files, each
 * whole or failed, with the errno sorted into our classes once.
 */
#ifndef WORKER_SPOOL_FILE_H
#define WORKER_SPOOL_FILE_H

#include "base/fail.h"

#include <sys/types.h>

/*
 * Refuse a folder that is a symbolic link or somebody else's: what is kept there would be in other
 * hands. `base` and all below it down to `folder`; base NULL: folder alone. What is not there yet
 * will be ours. DEFIB_CONFIG.
 */
MUST_CHECK defib_err folder_ours(const char *base, const char *folder, struct failure *f);
/* Open a folder of our own; it and what leads to it are made (0700) and synced where missing. */
MUST_CHECK defib_err folder_open(const char *path, int *fd, struct failure *f);
/*
 * Own it while *lock is open. DEFIB_REFUSED when another process does; `path` is for the message.
 */
MUST_CHECK defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f);
/* Open a regular file of the folder for reading and writing, made (0600) if it is not there. */
MUST_CHECK defib_err file_open(int folder, const char *name, int flags, int *fd, struct failure *f);
MUST_CHECK defib_err file_size(int fd, off_t *size, struct failure *f);
/* Up to n bytes; fewer only at the end of the file. */
MUST_CHECK defib_err file_read(int fd, void *out, size_t n, off_t at, size_t *got,
                               struct failure *f);
MUST_CHECK defib_err file_write(int fd, const void *bytes, size_t n, off_t at, struct failure *f);
MUST_CHECK defib_err file_truncate(int fd, off_t size, struct failure *f);
/* What was written is on the disk when this returns. Also for folders: their names. */
MUST_CHECK defib_err file_sync(int fd, struct failure *f);
MUST_CHECK defib_err file_copy(int from, off_t begin, off_t end, int to, off_t at,
                               struct failure *f);

#endif
