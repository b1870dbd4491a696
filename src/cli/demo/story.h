/* SPDX-License-Identifier: Apache-2.0
 * story.h: how it is shown: opening, a line per act, a recording.
 */
#ifndef CLI_DEMO_STORY_H
#define CLI_DEMO_STORY_H

#include "cli/demo/demo.h"

/* story */
MUST_CHECK defib_err demo_story_open(struct demo *d, const char *record, struct failure *f);
void demo_story_close(struct demo *d);
/* What will happen; and, once everything is up, where. */
void demo_tell_opening(struct demo *d);
void demo_tell_place(struct demo *d, const char *address);
/* The acts and the numbers, from time to time. */
void demo_show_progress(struct demo *d, int64_t now_ms);
/* An act has ended. */
void demo_act_over(struct demo *d, int act);
/* The acts stay as they are; nothing is drawn over them any more. */
void demo_end_progress(struct demo *d);
/* Text as it is, in colours; they are left out where there are none. */
void demo_write(struct demo *d, const char *text);
/* A line with the time. An event is one that only --verbose shows. */
void demo_print(struct demo *d, enum color color, const char *fmt, ...) PRINTF_LIKE(3, 4);
void demo_event(struct demo *d, enum color color, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Three commands to go on with. */
void demo_tell_next(struct demo *d);

#endif
