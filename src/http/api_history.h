/* SPDX-License-Identifier: Apache-2.0
 * api_history.h: the ledger, reports, trends, alerts.
 */
#ifndef HTTP_API_HISTORY_H
#define HTTP_API_HISTORY_H

#include "http/api.h"

void api_read_ledger(struct api_call *c);

#endif
