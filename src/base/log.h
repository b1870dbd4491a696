/* SPDX-License-Identifier: Apache-2.0
 * log.h: one event per line on stderr, as logfmt (default), JSON or plain text for a person at a
 * terminal.
 *
 *   log_event(LOG_WARN, "stuck jobs reset", LOG_INT("total", 5), LOG_STR("watch", "pages"));
 *   logfmt: ts=2026-01-02T03:04:05.123Z level=warn msg="stuck jobs reset" total=5 watch=pages
 *   plain:  defib: warn: stuck jobs reset total=5 watch=pages
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/fail.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_CRITICAL };
enum log_format { LOG_PLAIN, LOG_LOGFMT, LOG_JSON };

struct log_field {
	const char *key;  /* NULL ends the list */
	const char *text; /* NULL: use number */
	int64_t number;
};
#define LOG_STR(k, v) ((struct log_field){(k), (v) ? (v) : "", 0})
#define LOG_INT(k, v) ((struct log_field){(k), NULL, (v)})

/* States, kinds and labels are arbitrary text; the name of a field is one word. */
void log_key(char *text);

void log_setup(enum log_level least, enum log_format format);
/*
 * Send lines, without the newline, to `line` instead; NULL: to stderr. Call before threads start.
 */
typedef void log_line(void *ctx, const char *level, const char *text);
void log_divert(log_line *line, void *ctx);
extern const char *const log_format_names[];                   /* ends with NULL */
bool log_format_parse(const char *text, enum log_format *out); /* "plain", "logfmt", "json" */
bool log_level_parse(const char *text, enum log_level *out);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *msg, const struct log_field *fields);
/* The first row is skipped. It is there for the comma when an event has no fields. */
#define log_event(level, msg, ...)                                                                 \
	log_write((level), (msg),                                                                      \
	          (const struct log_field[]){{"", "", 0}, ##__VA_ARGS__, {NULL, NULL, 0}} + 1)

/* A line that a program of the user printed, whatever the level is: `job` may be NULL. */
void log_output(const char *job, const char *line);

#endif
