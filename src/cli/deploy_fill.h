/*
 * deploy_fill.h: the files of deploy/ with a configuration filled in.
 *
 * They are no templates: each can be used as it ships. What a configuration changes
 * in them is found by the words that they ship with:
 *
 *   /etc/defib/defib.yaml    where the configuration is
 *   /usr/local/bin/defib     where the program is
 *   DATABASE_URL             its line is there once for each name that the configuration
 *                            takes from the environment
 *   DEFIB_TOKEN, DEFIB_METRICS_TOKEN
 *                            their lines go where the configuration has tokens of its own
 *   Watches: all that …      their names
 *   900s, * / 15 * * * *     the shortest interval of a watch
 *   defib.yaml: |            the configuration itself
 */
#ifndef CLI_DEPLOY_FILL_H
#define CLI_DEPLOY_FILL_H

#include "config/tree.h"

#include "base/buf.h"

#define FILL_NAMES_MAX 64

struct fill_name {
	const char *name;
	bool url; /* of a database */
};

/* What a configuration has for the files. */
struct fill {
	const char *path;    /* absolute; NULL: as it ships */
	const char *program; /* absolute; NULL: as it ships */
	const char *text;    /* the whole configuration; NULL: there is none */
	int nnames;
	struct fill_name names[FILL_NAMES_MAX];
	bool tokens; /* it says who may ask over HTTP */
	bool sqlite; /* a database of it is a file */
	struct buf watches;
	int64_t every_us; /* 0: not known */
};

/* What runs there decides which names count. */
enum fill_place {
	FILL_SCAN, /* scans alone */
	FILL_POD,  /* a daemon that is asked from elsewhere: tokens of HTTP, and what sinks pass on */
	FILL_HOST, /* a daemon and workers: what sinks, watches and workflows pass on */
};

/*
 * From a parsed file; nothing is taken from the environment but what its defaults leave
 * open, so that it works where the secrets are not.
 */
void fill_read(struct fill *f, const struct cfg_node *root, enum fill_place place, struct arena *a);
void fill_release(struct fill *f);
/* One file. */
void fill_file(const struct fill *f, const char *text, struct buf *out);
/* "* / 15 * * * *" without the blanks: the longest that cron can say and is not longer. */
void fill_cron(int64_t every_us, struct buf *out);

#endif
