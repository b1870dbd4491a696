/* SPDX-License-Identifier: Apache-2.0
 * log.c: one event per line, built as a whole and written with one write(2), so that lines of
 * several threads and processes do not mix.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"

#include <ctype.h>
#include <stdatomic.h>
#include <unistd.h>

static const char *const level_names[] = {
	[LOG_DEBUG] = "debug", [LOG_INFO] = "info",         [LOG_WARN] = "warn",
	[LOG_ERROR] = "error", [LOG_CRITICAL] = "critical", NULL,
};

/* Atomic: a reload may change them while workers log. */
static atomic_int log_least = LOG_INFO;
static atomic_int log_format = LOG_LOGFMT;

void log_setup(enum log_level least, enum log_format format)
{
	atomic_store(&log_least, (int)least);
	atomic_store(&log_format, (int)format);
}

static log_line *diverted; /* NULL: to stderr */
static void *diverted_ctx;

void log_divert(log_line *line, void *ctx)
{
	diverted = line;
	diverted_ctx = ctx;
}

const char *const log_format_names[] = {
	[LOG_PLAIN] = "plain", [LOG_LOGFMT] = "logfmt", [LOG_JSON] = "json", NULL};

bool log_format_parse(const char *text, enum log_format *out)
{
	int format = word_index(log_format_names, text);
	if (format >= 0)
		*out = (enum log_format)format;
	return format >= 0;
}

bool log_level_parse(const char *text, enum log_level *out)
{
	int level = word_index(level_names, text);
	if (level >= 0)
		*out = (enum log_level)level;
	return level >= 0;
}

void log_key(char *text)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && (unsigned char)*text < 0x80)
			*text = '_';
}

bool log_enabled(enum log_level level)
{
	return (int)level >= atomic_load(&log_least);
}

/* Plain if that reads back as one word; otherwise a JSON string, which logfmt readers accept. */
static void log_add_value(struct buf *line, const char *text)
{
	bool bare = *text != '\0';
	for (const unsigned char *p = (const unsigned char *)text; *p && bare; p++)
		bare = *p > ' ' && *p < 0x7f && !strchr("\"=\\", *p);
	if (bare)
		buf_add(line, text);
	else
		buf_add_json(line, text);
}

static void add_pairs(struct buf *line, const struct log_field *fields)
{
	for (const struct log_field *f = fields; f->key; f++) {
		buf_addf(line, " %s=", f->key);
		if (f->text)
			log_add_value(line, f->text);
		else
			buf_addf(line, "%lld", (long long)f->number);
	}
}

/* What a person reads in a terminal must not steer it. */
static void log_add_clean(struct buf *line, const char *text)
{
	while (*text) {
		size_t n = utf8_len(text);
		if (n == 0 || utf8_is_control(text))
			buf_addch(line, '?');
		else
			buf_addn(line, text, n);
		text += n ? n : 1;
	}
}

static void line_plain(struct buf *line, const char *level, const char *msg,
                       const struct log_field *fields)
{
	buf_addf(line, "defib: %s: ", level);
	log_add_clean(line, msg);
	add_pairs(line, fields);
}

static void line_logfmt(struct buf *line, const char *level, const char *msg,
                        const struct log_field *fields)
{
	buf_add(line, "ts=");
	time_iso(clock_wall_us(), line);
	buf_addf(line, " level=%s msg=", level);
	log_add_value(line, msg);
	add_pairs(line, fields);
}

static void line_json(struct buf *line, const char *level, const char *msg,
                      const struct log_field *fields)
{
	buf_add(line, "{\"ts\":\"");
	time_iso(clock_wall_us(), line);
	buf_addf(line, "\",\"level\":\"%s\",\"msg\":", level);
	buf_add_json(line, msg);
	for (const struct log_field *f = fields; f->key; f++) {
		buf_addch(line, ',');
		buf_add_json(line, f->key);
		buf_addch(line, ':');
		if (f->text)
			buf_add_json(line, f->text);
		else
			buf_addf(line, "%lld", (long long)f->number);
	}
	buf_addch(line, '}');
}

typedef void line_writer(struct buf *line, const char *level, const char *msg,
                         const struct log_field *fields);

static line_writer *const writers[] = {
	[LOG_PLAIN] = line_plain,
	[LOG_LOGFMT] = line_logfmt,
	[LOG_JSON] = line_json,
};

static void log_put(enum log_level level, const char *msg, const struct log_field *fields)
{
	AUTO_BUF line = BUF_INIT;
	writers[atomic_load(&log_format)](&line, level_names[level], msg, fields);
	if (diverted) {
		diverted(diverted_ctx, level_names[level], buf_text(&line));
		return;
	}
	buf_addch(&line, '\n');
	/* A log that cannot be written must not stop the work it reports. */
	ssize_t written = write(STDERR_FILENO, buf_text(&line), line.len);
	(void)written;
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
	if (log_enabled(level))
		log_put(level, msg, fields);
}

void log_output(const char *job, const char *line)
{
	const struct log_field fields[] = {LOG_STR("job", job), LOG_STR("line", line), {NULL, NULL, 0}};
	log_put(LOG_INFO, "output of a job", job ? fields : fields + 1);
}
