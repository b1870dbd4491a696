/*
 * init_print.c: see init_print.h. Nothing is asked of the database: it is printed where the
 * role of the configuration cannot get in, for somebody who can.
 */
#include "cli/init_print.h"

#include "base/text.h"
#include "ledger/rights.h"
#include "ledger/schema.h"
#include "watch/grants.h"
#include "watch/words.h"

/* What a group does with the tables of watches. */
static const enum watch_use uses[RIGHTS_GROUPS] = {
	[RIGHTS_VIEW] = WATCH_READ, [RIGHTS_ACT] = WATCH_RECOVER, [RIGHTS_DAEMON] = WATCH_RECOVER,
	[RIGHTS_WORK] = WATCH_WORK, [RIGHTS_RUN] = WATCH_RECOVER,
};

static bool is_watch_of(const struct cli *c, const struct watch *w, const struct database *d)
{
	return w->enabled && settings_database(&c->settings, w) == d;
}

static bool has_work(const struct cli *c, const struct database *d)
{
	for (int i = 0; i < c->settings.nwatches; i++)
		if (is_watch_of(c, &c->settings.watches[i], d) && c->settings.watches[i].work.given)
			return true;
	return false;
}

/* --for view,act: which groups; without it what the configuration needs. */
static bool chosen_groups(struct cli *c, const struct database *d, bool *chosen, const char **wrong)
{
	const char *given = cli_value(c, "for");
	if (!given) {
		chosen[RIGHTS_ACT] = chosen[RIGHTS_DAEMON] = true;
		chosen[RIGHTS_WORK] = has_work(c, d);
		return true;
	}
	char *at = arena_strdup(&c->arena, given), *rest = NULL;
	for (const char *word = strtok_r(at, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
		int group = word_index(rights_names, word);
		*wrong = word;
		if (group < 0)
			return false;
		chosen[group] = true;
	}
	return true;
}

static void print_group(struct cli *c, const struct database *d, enum rights_group group,
                        const char *role, struct buf *out)
{
	buf_addf(out, "\n-- %s: defib %s\n", rights_names[group], rights_of_commands[group]);
	rights_grants(group, role, out);
	for (int i = 0; i < c->settings.nwatches; i++) {
		const struct watch *w = &c->settings.watches[i];
		if (!is_watch_of(c, w, d))
			continue;
		buf_addf(out, "-- the watch %s\n", w->name);
		watch_grants(w, uses[group], role, &c->arena, out);
	}
}

/* --role, or who the URL says we are. */
static bool role_name(const struct cli *c, const struct database *d, struct buf *out)
{
	struct buf user = BUF_INIT;
	const char *given = cli_value(c, "role");
	if (!given)
		store_user(d->url, &user);
	if (given || user.len)
		sql_ident(out, given ? given : buf_text(&user));
	buf_release(&user);
	return out->len > 0;
}

int init_print(struct cli *c, const struct database *d)
{
	struct buf out = BUF_INIT, role = BUF_INIT;
	bool chosen[RIGHTS_GROUPS] = {false};
	const char *wrong = NULL;
	for (int part = 0; part < SCHEMA_PARTS; part++)
		buf_addf(&out, "%s\n", schema_script((enum schema_part)part, d->engine));
	if (d->engine == STORE_SQLITE) {
		buf_add(&out, "-- No grants are needed: who may write the file may do everything in it.\n");
	} else if (!chosen_groups(c, d, chosen, &wrong)) {
		buf_release(&out);
		return cli_usage("--for takes view, act, daemon, work and run, not \"%s\"", wrong);
	} else if (!role_name(c, d, &role)) {
		buf_release(&out);
		return cli_usage("the URL of %s names no user: say with --role who gets the grants",
		                 d->name);
	}
	if (role.len)
		buf_addf(&out,
		         "-- Grants for %s. --for says for which commands, --role for whom. Where "
		         "statements of a\n-- watch use functions or sequences, run defib doctor as that "
		         "role: it names what they need.\n",
		         buf_text(&role));
	for (int group = 0; group < RIGHTS_GROUPS; group++)
		if (chosen[group])
			print_group(c, d, (enum rights_group)group, buf_text(&role), &out);
	out_print(&out);
	buf_release(&role);
	return EXIT_CLEAN;
}
