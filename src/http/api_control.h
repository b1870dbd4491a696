/* SPDX-License-Identifier: Apache-2.0
 * api_control.h: undo, a scan at once, overrides.
 */
#ifndef HTTP_API_CONTROL_H
#define HTTP_API_CONTROL_H

#include "http/api.h"

void call_undo_job(struct api_call *c);
void call_undo(struct api_call *c);
void call_scan(struct api_call *c);
void call_set_override(struct api_call *c);
void call_clear_override(struct api_call *c);
void call_override_guard(struct api_call *c);

#endif
