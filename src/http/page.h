/* SPDX-License-Identifier: Apache-2.0
 * page.h: the page: files for browsers.
 */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include "http/api.h"

/* The page with status 404: its script says that there is no such view. */
void page_missing(struct api_call *c);

#endif
