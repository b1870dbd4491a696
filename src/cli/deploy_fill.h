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

/*
 * From a parsed file; nothing is taken from the environment but what its defaults leave
 * open, so that it works where the secrets are not. `tokens_too`: those of HTTP count
 * among the names.
 */
void fill_read(struct fill *f, const struct cfg_node *root, bool tokens_too, struct arena *a);
void fill_release(struct fill *f);
/* One file. */
void fill_file(const struct fill *f, const char *text, struct buf *out);
/* "* / 15 * * * *" without the blanks: the longest that cron can say and is not longer. */
void fill_cron(int64_t every_us, struct buf *out);

#endif
