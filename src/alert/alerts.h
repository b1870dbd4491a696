/* SPDX-License-Identifier: Apache-2.0
 * alerts.h: the room of alerts, and their configuration: rules with their limits, and the sinks
 * that messages go to. Begin with rules.h, which decides and is pure. message.c writes what is
 * sent; alert_store.c stores it, and the state of each rule, until sinks.c has delivered it. The
 * thread that drives all of it is daemon/alert_loop.c.
 *
 * Every rule is on by default, with a limit that suits most users. An entry under `alerts: {rules:
 * …}` changes what it names, for all watches or for one. Plain data; alert/rules.h defines what a
 * rule measures.
 */
#ifndef ALERT_ALERTS_H
#define ALERT_ALERTS_H

#include "watch/settings.h"

/* ---- sinks ---- */

enum sink_type { SINK_LOG, SINK_COMMAND, SINK_WEBHOOK, SINK_ALERTMANAGER, SINK_PAGERDUTY };
enum sink_format { SINK_JSON, SINK_TEXT };

struct sink_headers {
	int n;
	const char **names, **values; /* values are secrets */
};

struct alert_sink {
	const char *name;
	int type;                          /* enum sink_type */
	const char *url;                   /* a secret: anyone who has a chat's URL may post there */
	struct text_list run;              /* argv, ends with NULL */
	struct text_list pass_environment; /* of the program: NAME or NAME=value */
	const char *key;                   /* PagerDuty's routing key; a secret */
	struct sink_headers headers;
	int64_t timeout_us;
	int format; /* enum sink_format */
	struct cfg_mark at;
};

struct sink_list {
	int n; /* at least one: "log" always exists, last unless it was configured */
	struct alert_sink *items;
};

/* ---- rules ---- */

enum alert_severity { ALERT_WARNING, ALERT_CRITICAL, ALERT_PAGE };
extern const char *const alert_severities[]; /* ends with NULL */

/* The unit of a rule's number. */
enum alert_unit {
	UNIT_JOBS,
	UNIT_SECONDS,
	UNIT_SHARE,  /* of 1 */
	UNIT_RATE,   /* jobs per second */
	UNIT_FACTOR, /* times as many */
	UNIT_STATE,  /* true or false */
};

/* X(enum, name): names are stable, because people route by them */
#define ALERT_LIST(X)                                                                              \
	X(STUCK_WARNING, "stuck_warning")                                                              \
	X(STUCK_CRITICAL, "stuck_critical")                                                            \
	X(STUCK_DOUBLED, "stuck_doubled")                                                              \
	X(STUCK_LONG, "stuck_long")                                                                    \
	X(CONNECTION_FAILURES, "connection_failures")                                                  \
	X(RECOVERED_MANY, "recovered_many")                                                            \
	X(RECOVERED_FAST, "recovered_fast")                                                            \
	X(DETECTION_SLOW, "detection_slow")                                                            \
	X(RECOVERY_RATE, "recovery_rate")                                                              \
	X(FALSE_POSITIVES, "false_positives")                                                          \
	X(RETRIES_EXHAUSTED, "retries_exhausted")                                                      \
	X(BRAKE_HELD, "brake_held")                                                                    \
	X(SCAN_OVERDUE, "scan_overdue")                                                                \
	X(DATABASE_AWAY, "database_away")                                                              \
	X(RESULTS_SET_ASIDE, "results_set_aside")                                                      \
	X(UNSTARTED, "unstarted")

enum alert_id {
#define X(id, name) ALERT_##id,
	ALERT_LIST(X)
#undef X
		ALERT_COUNT
};

/* Used instead of a watch by rules about a database as a whole. */
#define ALERT_ANY "*"

struct alert_rule {
	enum alert_id id;
	const char *name;
	const char *watch; /* NULL: all watches without a rule of their own */
	enum alert_unit unit;
	bool whole;   /* about the database, not single watches */
	bool lowest;  /* alerts below its limit instead of above */
	int severity; /* enum alert_severity */
	double limit;
	double floor;      /* below this count, the number says nothing */
	int64_t window_us; /* over which it is counted; 0: the current value */
	int64_t for_us;    /* how long the condition must hold to fire, and to resolve */
	int64_t repeat_us; /* repeated after this long; 0: never */
	bool enabled;
	struct text_list sinks; /* n 0: the default sinks */
	const char *says;       /* the sentence, with {value}, {limit}, {floor}, {window} */
	const char *about;      /* for people who choose limits */
	struct cfg_mark at;
};

/* The rules without any configuration, without their names; by enum alert_id. */
extern const struct alert_rule alert_defaults[];
extern const char *const alert_names[]; /* ends with NULL */

struct alert_settings {
	struct text_list sinks; /* where messages go unless a rule names other sinks */
	int64_t every_us;
	const char *link; /* a URL for people; NULL: not given */
	int nrules;       /* from the configuration: complete rules, with defaults filled in */
	struct alert_rule *rules;
	struct cfg_mark at;
};

/* The rule that applies to a watch. */
struct alert_rule alert_rule_for(const struct alert_settings *s, enum alert_id id,
                                 const char *watch);
/* Where its messages go. */
const struct text_list *alert_rule_sinks(const struct alert_settings *s,
                                         const struct alert_rule *r);
const struct alert_sink *alert_sink_named(const struct sink_list *all, const char *name);

/* ---- reading ---- */

/* From a configuration that was read with these sections. */
static inline const struct sink_list *settings_sinks(const struct settings *s)
{
	return s->sections[SECTION_SINKS];
}

static inline const struct alert_settings *settings_alerts(const struct settings *s)
{
	return s->sections[SECTION_ALERTS];
}

#endif
