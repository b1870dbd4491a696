/* SPDX-License-Identifier: Apache-2.0
 * cmd_enqueue.c: `defib enqueue QUEUE KIND [JSON|@FILE|-]`, one job or many. With --spool they are
 * stored while the database is unavailable, and are inserted before later ones.
 *
 * `defib cancel`: a waiting job is cancelled, a running one is asked to stop and its worker
 * notified. Plain numbers are jobs of the built-in queue, and need no confirmation. For jobs of a
 * watch, its `cancel` list is written.
 */
#include "cli/load.h"
#include "cli/select.h"
#include "lib/advice.h"
#include "recover/carry.h"
#include "store/spool_folder.h"
#include "worker/queue.h"
#include "worker/stored_jobs.h"
#include "worker/wake.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#define BULK_BATCH 1000
#define BATCH_BYTES (8 << 20) /* a batch of large payloads has fewer of them */
#define LINE_MAX_BYTES (1024 * 1024)
#define SPOOL_WAIT_MS 15000 /* for other processes that drain or fill the same directory */

static const struct cli_option enqueue_options[] = {
	{"delay", "DURATION", "run it after this delay"},
	{"priority", "N", "higher runs first; default 0"},
	{"unique-key", "TEXT", "skip it if a job with this key is waiting or running"},
	{"max-attempts", "N", "default 5"},
	{"timeout", "DURATION", "time limit of a run, at most 24d; default: none"},
	{"tags", "A,B", "tags to find it by"},
	{"bulk", "FILE", "one payload per line (JSONL); - reads standard input"},
	{"spool", "DIR",
     "directory that keeps jobs while the database is unavailable; they are enqueued first when it "
     "is back"},
	{NULL, NULL, NULL},
};

/* Where jobs go. */
struct target {
	struct cli *cli;
	struct store *store; /* NULL: it is unavailable … */
	struct failure away; /* … because of this */
	struct stored_jobs side;
	bool spool;
};

/* "a,b" as a JSON array. */
static const char *tags_json(struct cli *c, const char *text)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, "[");
	while (text && *text) {
		size_t n = strcspn(text, ",");
		buf_add(&out, out.len > 1 ? "," : "");
		buf_add_json(&out, arena_strndup(&c->arena, text, n));
		text += n + (text[n] == ',');
	}
	buf_add(&out, "]");
	return arena_strdup(&c->arena, buf_text(&out));
}

static int enqueue_read_job(struct cli *c, struct enqueue *job)
{
	int64_t delay_us = 0, timeout_us = 0;
	*job = (struct enqueue){
		.queue = c->words[0], .kind = c->words[1], .unique_key = cli_value(c, "unique-key")};
	if (!cli_int_within(c, "priority", PRIORITY_LEAST, PRIORITY_MOST, &job->priority) ||
	    !cli_duration(c, "delay", &delay_us) ||
	    !cli_duration_within(c, "timeout", 0, TIMEOUT_MOST_MS * INT64_C(1000), &timeout_us) ||
	    !cli_int_within(c, "max-attempts", 1, ATTEMPTS_MOST, &job->max_attempts))
		return EXIT_USAGE;
	job->delay_ms = ms_from_us(delay_us);
	job->timeout_ms = ms_from_us(timeout_us);
	if (cli_value(c, "tags"))
		job->tags = tags_json(c, cli_value(c, "tags"));
	return EXIT_CLEAN;
}

static bool valid_json(const char *text, const char *where)
{
	json_error_t error;
	json_auto_t *json = json_loads(text, JSON_DECODE_ANY, &error);
	if (!json)
		cli_usage("%s is not JSON: %s (line %d, column %d)", where, error.text, error.line,
		          error.column);
	return json != NULL;
}

static int enqueue_read_all(struct cli *c, FILE *in, const char *name, const char **out)
{
	AUTO_BUF text = BUF_INIT;
	char chunk[65536];
	size_t n;
	while ((n = fread(chunk, 1, sizeof chunk, in)) > 0)
		buf_addn(&text, chunk, n);
	bool failed = ferror(in);
	*out = arena_strdup(&c->arena, buf_text(&text));
	return failed ? cli_usage("cannot read %s", name) : EXIT_CLEAN;
}

/* JSON as given, @FILE or - for standard input. */
static int read_payload(struct cli *c, const char *given, const char **out)
{
	int code = EXIT_CLEAN;
	*out = given;
	if (text_eq(given, "-")) {
		code = enqueue_read_all(c, stdin, "standard input", out);
	} else if (given[0] == '@') {
		FILE *in = fopen(given + 1, "re");
		if (!in)
			return cli_usage("cannot read %s: %s", given + 1, strerror(errno));
		code = enqueue_read_all(c, in, given + 1, out);
		fclose(in);
	}
	if (code == EXIT_CLEAN && !valid_json(*out, "the payload"))
		code = EXIT_USAGE;
	return code;
}

/* Without --spool a temporary error mentions that it would have helped. */
static int enqueue_failed(const struct target *t, struct failure *f)
{
	if (!t->spool && store_unavailable(f->code)) {
		char before[sizeof f->next];
		snprintf(before, sizeof before, "%s", failure_next(f));
		fail_next(f, "%s%s--spool DIR keeps new jobs until the database is back", before,
		          *before ? "; " : "");
	}
	return cli_queue_fail(f);
}

/* Into the database, or stored for it: *kept. */
static defib_err enqueue_to(struct target *t, const struct enqueue *jobs, int n,
                            struct stored_sent *sent, struct failure *f)
{
	if (!t->spool)
		return enqueue_jobs(t->store, jobs, n, sent->ids, f);
	bool away = !t->store;
	sent->why = t->away;
	defib_err err = stored_jobs_send(&t->side, t->store, jobs, n, sent, f);
	if (err || !sent->stored || away)
		return err;
	/* Later jobs are stored behind it, without a try for each. */
	t->away = sent->why;
	store_close(t->store);
	t->store = NULL;
	return DEFIB_OK;
}

static void enqueue_print_stored(const struct target *t)
{
	char line[sizeof t->away.what + 512];
	snprintf(line, sizeof line, "%s; kept in %s", t->away.what, t->side.folder);
	cli_message(line, NULL);
}

struct bulk {
	struct target *target;
	const struct enqueue *model;
	struct arena arena;
	struct enqueue jobs[BULK_BATCH];
	int64_t ids[BULK_BATCH];
	int n;
	int64_t done, stored, line, begun_ms, shown_ms;
};

static void show_progress(struct bulk *b)
{
	int64_t now = clock_boot_ms();
	const struct cli *c = b->target->cli;
	if (!c->tty_err || c->quiet || now - b->begun_ms < 1000 || now - b->shown_ms < 100)
		return;
	b->shown_ms = now;
	fprintf(stderr, "\r\033[K%lld jobs, %lld/s", (long long)b->done,
	        (long long)(b->done * 1000 / (now - b->begun_ms)));
	fflush(stderr);
}

static defib_err flush_bulk(struct bulk *b, struct failure *f)
{
	struct stored_sent sent = {.ids = b->ids};
	defib_err err = b->n ? enqueue_to(b->target, b->jobs, b->n, &sent, f) : DEFIB_OK;
	if (!err)
		*(sent.stored ? &b->stored : &b->done) += b->n;
	b->n = 0;
	arena_clear(&b->arena);
	show_progress(b);
	return err;
}

static int bulk_lines(struct bulk *b, FILE *in, struct failure *f)
{
	char *line = NULL, where[48];
	size_t cap = 0;
	ssize_t len;
	int code = EXIT_CLEAN;
	defib_err err = DEFIB_OK;
	while (code == EXIT_CLEAN && !err && (len = getline(&line, &cap, in)) >= 0) {
		b->line++;
		while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
			line[--len] = '\0';
		if (len == 0)
			continue;
		snprintf(where, sizeof where, "line %lld", (long long)b->line);
		if (len > LINE_MAX_BYTES)
			code = cli_usage("%s has %lld bytes; a payload may have at most %d: store large data "
			                 "in a file, and its name in the job",
			                 where, (long long)len, LINE_MAX_BYTES);
		else if (!valid_json(line, where))
			code = EXIT_USAGE;
		if (code != EXIT_CLEAN)
			break;
		b->jobs[b->n] = *b->model;
		b->jobs[b->n++].payload = arena_strdup(&b->arena, line);
		if (b->n == BULK_BATCH || b->arena.used > BATCH_BYTES)
			err = flush_bulk(b, f);
	}
	free(line);
	/* What came before a bad line is valid: it is kept, and reported. */
	if (!err)
		err = flush_bulk(b, f);
	if (b->shown_ms)
		fputs("\r\033[K", stderr);
	if (err)
		code = enqueue_failed(b->target, f);
	return code != EXIT_CLEAN && (b->done || b->stored) ? EXIT_PARTLY : code;
}

static void print_bulk(const struct bulk *b)
{
	const struct target *t = b->target;
	long long done = (long long)b->done, stored = (long long)b->stored;
	if (b->stored)
		enqueue_print_stored(t);
	if (t->cli->json && t->spool)
		printf("{\"enqueued\":%lld,\"spooled\":%lld}\n", done, stored);
	else if (t->cli->json)
		printf("{\"enqueued\":%lld}\n", done);
	else if (!t->cli->quiet && b->stored)
		printf("%lld jobs enqueued, %lld spooled\n", done, stored);
	else if (!t->cli->quiet)
		printf("%lld jobs enqueued\n", done);
}

static int enqueue_bulk(struct target *t, const struct enqueue *model, const char *path)
{
	struct failure f = {0};
	FILE *in = text_eq(path, "-") ? stdin : fopen(path, "re");
	if (!in)
		return cli_usage("cannot read %s: %s", path, strerror(errno));
	struct bulk *b = mem_alloc(sizeof *b);
	*b = (struct bulk){.target = t, .model = model, .begun_ms = clock_boot_ms()};
	int code = bulk_lines(b, in, &f);
	if (t->store)
		wake_send(t->store, t->side.url);
	print_bulk(b);
	if (in != stdin)
		fclose(in);
	arena_release(&b->arena);
	free(b);
	return code;
}

static int enqueue_one(struct target *t, struct enqueue *job)
{
	struct cli *c = t->cli;
	struct failure f = {0};
	int64_t id = 0;
	struct stored_sent sent = {.ids = &id};
	if (c->nwords > 2) {
		int code = read_payload(c, c->words[2], &job->payload);
		if (code != EXIT_CLEAN)
			return code;
	}
	if (enqueue_to(t, job, 1, &sent, &f))
		return enqueue_failed(t, &f);
	if (sent.stored)
		enqueue_print_stored(t);
	else
		wake_send(t->store, t->side.url);
	if (sent.stored && c->json)
		printf("{\"spooled\":true,\"token\":\"%s\"}\n", sent.token);
	else if (sent.stored)
		printf("spooled\n");
	else
		printf(c->json ? "{\"id\":%lld}\n" : "%lld\n", (long long)id);
	return EXIT_CLEAN;
}

/*
 * With these, an old primary that came back counts as unavailable: it would acknowledge a job that
 * the new one never sees.
 */
static void keep_timelines(const char *spool)
{
	struct failure f = {0};
	int fd = -1;
	if (folder_open(spool, &fd, &f) || timeline_keep(spool, &f))
		log_event(LOG_WARN, f.what);
	if (fd >= 0)
		close(fd);
}

/* Opens the database; an unavailable one is not a failure if jobs can be stored. */
static int open_target(struct target *t)
{
	struct cli *c = t->cli;
	const struct database *d = &c->settings.databases[0];
	const char *spool = cli_value(c, "spool");
	struct store_options o = cli_store_options(d, NULL, false);
	t->spool = spool != NULL;
	t->side = (struct stored_jobs){
		.folder = arena_printf(&c->arena, "%s/" STORED_JOBS_FOLDER, spool ? spool : ""),
		.base = spool,
		.url = d->url,
		.wait_ms = SPOOL_WAIT_MS,
	};
	if (spool && folder_ours(spool, t->side.folder, &t->away))
		return enqueue_failed(t, &t->away);
	if (spool)
		keep_timelines(spool);
	if (store_open(&o, &t->store, &t->away) && !(t->spool && store_unavailable(t->away.code)))
		return enqueue_failed(t, &t->away);
	return EXIT_CLEAN;
}

static int cmd_enqueue(struct cli *c)
{
	struct target t = {.cli = c};
	struct enqueue job;
	const char *bulk = cli_value(c, "bulk");
	if (c->nwords < 2 || c->nwords > (bulk ? 2 : 3))
		return cli_usage(
			"defib enqueue takes a queue, a kind and a payload; see defib enqueue --help");
	int code = enqueue_read_job(c, &job);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code == EXIT_CLEAN)
		code = open_target(&t);
	if (code != EXIT_CLEAN)
		return code;
	code = bulk ? enqueue_bulk(&t, &job, bulk) : enqueue_one(&t, &job);
	store_close(t.store);
	return code;
}

COMMAND(enqueue, cmd_enqueue, "QUEUE KIND [JSON|@FILE|-]", "put a job into the built-in queue",
        .options = enqueue_options,
        .examples = {
			{"defib enqueue mail send '{\"to\": \"a@example.org\"}'", "prints the job's id"},
			{"defib enqueue mail send @mail.json --delay 10m --unique-key ann",
             "later, and not twice"},
			{"defib enqueue mail send --bulk mails.jsonl", "one job per line"},
			{"defib enqueue mail send '{}' --spool spool",
             "kept on disk while the database is unavailable"}});

/* ---- cancel ---- */

static const struct cli_option cancel_options[] = {
	SELECTOR_OPTIONS, SELECTOR_ALL, ACT_OPTIONS, ACT_OVERRIDE, ACT_BACKGROUND, {NULL, NULL, NULL},
};

/* A number; any single word if there is no watch that it could be a key of. */
static bool may_be_of_queue(const struct cli *c, const char *word)
{
	int64_t id;
	if (c->settings.nwatches == 0)
		return !strchr(word, '/') && !text_eq(word, "-");
	return int_parse(word, &id);
}

/* Whether the words can only mean jobs of the queue. */
static bool means_queue(const struct cli *c)
{
	const struct settings *s = &c->settings;
	bool only_watch = s->nwatches == 1 && s->watches[0].actions[ACT_CANCEL].form != ACTION_NONE;
	bool all = !only_watch && c->nwords > 0;
	if (cli_value(c, "watch") || cli_value(c, "where"))
		return false;
	for (int i = 0; i < c->nwords; i++)
		all = all && may_be_of_queue(c, c->words[i]);
	return all;
}

/* Jobs that were named by their numbers alone: nothing is looked up, and nobody is asked. */
static int cancel_numbers(struct cli *c, const struct act_kind *kind)
{
	const struct database *d = &c->settings.databases[0];
	const struct watch *queue = builtin_watch(d->engine, &c->arena);
	AUTO_SESSION session = cli_session(d, queue, false);
	struct selected group = {.watch = queue,
	                         .database = d,
	                         .session = &session,
	                         .named = true,
	                         .jobs = c->words,
	                         .njobs = c->nwords};
	const struct selection s = {.groups = &group, .n = 1, .total = c->nwords};
	int64_t id;
	for (int i = 0; i < c->nwords; i++)
		if (!int_parse(c->words[i], &id))
			return cli_usage("\"%s\" is not a job number", c->words[i]);
	return act_carry_out(c, kind, &s);
}

static int cmd_cancel(struct cli *c)
{
	const struct act_kind *kind = act_kind_named("cancel");
	const struct select_rules rules = {.changes = true};
	AUTO(selection_release) struct selection s = {0};
	int code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	if (c->nwords == 0 && !cli_value(c, "where") && !cli_flag(c, "all"))
		return cli_usage("name the jobs: their numbers, WATCH/KEY, or --where TERM");
	if (cli_flag(c, "background"))
		return act_in_background(c, kind);
	if (means_queue(c))
		return cancel_numbers(c, kind);
	code = select_jobs(c, &rules, &s);
	return code == EXIT_CLEAN ? act_selected(c, kind, &s) : code;
}

COMMAND(cancel, cmd_cancel, "JOB…", "cancel waiting jobs, ask running ones to stop",
        .options = cancel_options,
        .examples = {{"defib cancel queue/44 --yes", "one job"},
                     {"defib cancel --watch queue --where kind=render --where state=queued --yes",
                      "all waiting jobs of one kind"}});
