/* SPDX-License-Identifier: Apache-2.0
 * url.h: database URLs in the form of other tools, converted to ours.
 */
#ifndef STORE_URL_H
#define STORE_URL_H

#include "base/text.h"

/*
 * Convert a URL to defib's own form. `notes` gets one sentence about what was changed, without any
 * value (it may be secret), or "". Converting twice changes nothing. False: the failure states what
 * to write instead.
 */
bool store_url_read(const char *url, struct buf *out, struct buf *notes, struct failure *f);

#endif
