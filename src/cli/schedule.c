/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: see schedule.h. */
#include "cli/schedule.h"

#include "base/clock.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_US (60 * US_PER_S)

struct schedule schedule_for(int64_t every_us, bool seconds)
{
	/* Steps that divide an hour or a day: with others the last one of each would be shorter. */
	static const int minutes[] = {1,  2,  3,   4,   5,   6,   10,  12,  15,  20,
	                              30, 60, 120, 180, 240, 360, 480, 720, 1440};
	enum { STEPS = sizeof minutes / sizeof *minutes };
	struct schedule s = {0};
	int64_t whole_s = (every_us + US_PER_S - 1) / US_PER_S;
	if (seconds && whole_s < 60) {
		s.every_us = (whole_s ? whole_s : 1) * US_PER_S;
		snprintf(s.cron, sizeof s.cron, "%d seconds", (int)(s.every_us / US_PER_S));
		return s;
	}
	int i = 0;
	while (i < STEPS - 1 && minutes[i] * MINUTE_US < every_us)
		i++;
	s.every_us = minutes[i] * MINUTE_US;
	if (minutes[i] == 1)
		snprintf(s.cron, sizeof s.cron, "* * * * *");
	else if (minutes[i] < 60)
		snprintf(s.cron, sizeof s.cron, "*/%d * * * *", minutes[i]);
	else if (minutes[i] == 60)
		snprintf(s.cron, sizeof s.cron, "0 * * * *");
	else if (minutes[i] < 1440)
		snprintf(s.cron, sizeof s.cron, "0 */%d * * *", minutes[i] / 60);
	else
		snprintf(s.cron, sizeof s.cron, "0 0 * * *");
	return s;
}

/* The URL without its password, which belongs into ~/.pgpass; a service where that cannot be. */
static void add_connection(const char *url, struct buf *out)
{
	struct buf redacted = BUF_INIT;
	url_redact(url, &redacted);
	const char *text = buf_text(&redacted), *hidden = strstr(text, ":***@");
	if (hidden) {
		buf_addn(out, text, (size_t)(hidden - text));
		buf_add(out, hidden + strlen(":***"));
	} else {
		buf_add(out, strstr(text, "***") ? "service=defib" : text);
	}
	buf_release(&redacted);
}

/* A word in single quotes for a shell. */
static void add_shell_word(const char *text, struct buf *out)
{
	buf_addch(out, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			buf_add(out, "'\\''");
		else
			buf_addch(out, *text);
	}
	buf_addch(out, '\'');
}

/* A word in double quotes for systemd, which reads no shell. */
static void add_unit_word(const char *text, struct buf *out)
{
	buf_addch(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_addch(out, '\\');
		buf_addch(out, *text);
		if (*text == '%' || *text == '$') /* doubled, they mean themselves */
			buf_addch(out, *text);
	}
	buf_addch(out, '"');
}

void schedule_cron_line(const struct timed_call *t, struct buf *out)
{
	struct buf url = BUF_INIT, command = BUF_INIT;
	add_connection(t->url, &url);
	buf_add(&command, "psql -Xq -o /dev/null -d ");
	add_shell_word(buf_text(&url), &command);
	buf_add(&command, " -c ");
	add_shell_word(t->sql, &command);
	buf_addf(out, "%s ", schedule_for(t->every_us, false).cron);
	for (const char *c = buf_text(&command); *c; c++) {
		if (*c == '%') /* crontab takes it for a new line */
			buf_addch(out, '\\');
		buf_addch(out, *c);
	}
	buf_add(out, "\n");
	buf_release(&url);
	buf_release(&command);
}

/* Letters and digits of the name; the rest of it means something to systemd or a shell. */
static void add_unit_name(const char *name, struct buf *out)
{
	buf_add(out, "defib-recover-");
	for (; *name; name++)
		buf_addch(out, isalnum((unsigned char)*name) ? *name : '-');
}

void schedule_systemd(const struct timed_call *t, struct buf *out)
{
	struct buf unit = BUF_INIT, url = BUF_INIT;
	add_unit_name(t->name, &unit);
	add_connection(t->url, &url);
	buf_addf(out,
	         "# /etc/systemd/system/%s.service\n"
	         "[Unit]\nDescription=%s\n\n"
	         "[Service]\nType=oneshot\nUser=nobody\n"
	         "Environment=PGPASSFILE=/etc/defib/pgpass\n"
	         "ExecStart=/usr/bin/psql -Xq -o /dev/null -d ",
	         buf_text(&unit), buf_text(&unit));
	add_unit_word(buf_text(&url), out);
	buf_add(out, " -c ");
	add_unit_word(t->sql, out);
	buf_addf(out,
	         "\n\n# /etc/systemd/system/%s.timer\n"
	         "[Timer]\nOnBootSec=1min\nOnUnitActiveSec=%llds\nAccuracySec=1s\n\n"
	         "[Install]\nWantedBy=timers.target\n\n"
	         "# systemctl enable --now %s.timer\n",
	         buf_text(&unit), (long long)((t->every_us + US_PER_S - 1) / US_PER_S),
	         buf_text(&unit));
	buf_release(&unit);
	buf_release(&url);
}
