/* SPDX-License-Identifier: Apache-2.0
 * terms.h: the terms of --where, as data.
 *
 * A term is a word with an operator and a value, never SQL. list_sql.h turns terms into conditions
 * in which every value is a parameter. The meaning of a term depends on the watch: its named
 * states, its shown columns.
 */
#ifndef WATCH_TERMS_H
#define WATCH_TERMS_H

#include "watch/watch.h"

#define TERMS_MAX 32

enum term_what {
	TERM_STATE,
	TERM_KIND,
	TERM_OWNER,
	TERM_COLUMN, /* one of `show` */
	TERM_TEXT,
	TERM_ANY, /* whatever an operator remembers of a job */
	TERM_AGE,
	TERM_VERDICT,
	TERM_STUCK,
	TERM_RUNNING,
	TERM_HELD,
	TERM_EXCUSED,
	TERM_RECOVERED,
};

enum term_op { TERM_IS, TERM_IS_NOT, TERM_HAS, TERM_OVER, TERM_UNDER };

/* Where TERM_ANY searches: a caller must not find what it may not see. */
enum term_reach {
	REACH_ALL,    /* key, kind, owner, errors, shown columns, text, search */
	REACH_SHOWN,  /* without owner, errors and search */
	REACH_NAMING, /* only key and kind */
};

struct term {
	enum term_what what;
	enum term_op op;
	const char *value;
	int column;            /* TERM_COLUMN: its index in `show` */
	int64_t us;            /* TERM_AGE */
	enum verdict verdict;  /* TERM_VERDICT */
	enum term_reach reach; /* TERM_ANY */
};

/*
 * `state=NAME`, `kind!=scrape`, `owner~host7`, `COLUMN=value`, `text~words`, `any~words`,
 * `age>10m`, `verdict=silent`, `stuck`, `running`, `held`, `excused`, `recovered`. A word that the
 * watch does not know is DEFIB_USAGE, with the nearest word that it knows; `*unknown` (may be NULL)
 * is true if another watch may know the word.
 */
MUST_CHECK defib_err term_parse(const struct watch *w, const char *text, struct arena *a,
                                struct term *out, bool *unknown, struct failure *f);
/* The beginnings of the terms that every watch knows ("age>", "stuck"), by index; NULL: no more. */
const char *term_word(int i, const char **usage);
/* The name that `states` gives to a value; NULL: none. */
const char *state_named(const struct watch *w, const char *raw);

#endif
