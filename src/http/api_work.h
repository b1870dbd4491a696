/* SPDX-License-Identifier: Apache-2.0
 * api_work.h: enqueue, claim, settle, progress: jobs for workers that use only HTTP
 * (docs/clients.md). Such a worker is not a visible process and holds no session: only its lease
 * proves its life. Its incarnation has no host (registry.h), so that no daemon looks for its pid or
 * its lock. Calls of one worker may go through different daemons: everything is in the database.
 */
#ifndef HTTP_API_WORK_H
#define HTTP_API_WORK_H

#include "http/api.h"

void call_enqueue(struct api_call *c);
void call_claim(struct api_call *c);
void call_settle(struct api_call *c);
void call_progress(struct api_call *c);

#endif
