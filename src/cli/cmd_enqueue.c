/*
 * cmd_enqueue.c: `defib enqueue QUEUE KIND [JSON|@FILE|-]`, one job or many.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/text.h"
#include "worker/enqueue.h"
#include "worker/wake.h"

#include <errno.h>
#include <jansson.h>

#define BULK_BATCH 1000
#define LINE_MAX_BYTES (1024 * 1024)

const struct cli_option enqueue_options[] = {
	{"delay", "DURATION", "run it so much later"},
	{"priority", "N", "greater goes first; default 0"},
	{"unique-key", "TEXT", "not twice while one of that key waits or runs"},
	{"max-attempts", "N", "default 5"},
	{"timeout", "DURATION", "time limit of a run"},
	{"tags", "A,B", "words to find it by"},
	{"bulk", "FILE", "one payload a line (JSONL); - reads standard input"},
	{NULL, NULL, NULL},
};

/* "a,b" as a JSON array. */
static const char *tags_json(struct cli *c, const char *text)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "[");
	while (text && *text) {
		size_t n = strcspn(text, ",");
		buf_add(&out, out.len > 1 ? "," : "");
		buf_add_json(&out, arena_strndup(&c->arena, text, n));
		text += n + (text[n] == ',');
	}
	buf_add(&out, "]");
	const char *json = arena_strdup(&c->arena, buf_text(&out));
	buf_release(&out);
	return json;
}

static int read_job(struct cli *c, struct enqueue *job)
{
	int64_t delay_us = 0, timeout_us = 0;
	*job = (struct enqueue){
		.queue = c->words[0], .kind = c->words[1], .unique_key = cli_value(c, "unique-key")};
	const char *priority = cli_value(c, "priority");
	if (priority &&
	    (!int_parse(priority, &job->priority) || job->priority < -32768 || job->priority > 32766))
		return cli_usage("--priority is a whole number from -32768 to 32766, not \"%s\"", priority);
	if (!cli_duration(c, "delay", &delay_us) || !cli_duration(c, "timeout", &timeout_us) ||
	    !cli_int(c, "max-attempts", &job->max_attempts))
		return EXIT_USAGE;
	job->delay_ms = delay_us / 1000;
	job->timeout_ms = timeout_us / 1000;
	if (cli_value(c, "tags"))
		job->tags = tags_json(c, cli_value(c, "tags"));
	return EXIT_CLEAN;
}

static bool valid_json(const char *text, const char *where)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);
	if (!json)
		cli_usage("%s is not JSON: %s (line %d, column %d)", where, error.text, error.line,
		          error.column);
	json_decref(json);
	return json != NULL;
}

static int read_all(struct cli *c, FILE *in, const char *name, const char **out)
{
	struct buf text = BUF_INIT;
	char chunk[65536];
	size_t n;
	while ((n = fread(chunk, 1, sizeof chunk, in)) > 0)
		buf_addn(&text, chunk, n);
	bool failed = ferror(in);
	*out = arena_strdup(&c->arena, buf_text(&text));
	buf_release(&text);
	return failed ? cli_usage("cannot read %s", name) : EXIT_CLEAN;
}

/* JSON as given, @FILE or - for standard input. */
static int read_payload(struct cli *c, const char *given, const char **out)
{
	int code = EXIT_CLEAN;
	*out = given;
	if (text_eq(given, "-")) {
		code = read_all(c, stdin, "standard input", out);
	} else if (given[0] == '@') {
		FILE *in = fopen(given + 1, "re");
		if (!in)
			return cli_usage("cannot read %s: %s", given + 1, strerror(errno));
		code = read_all(c, in, given + 1, out);
		fclose(in);
	}
	if (code == EXIT_CLEAN && !valid_json(*out, "the payload"))
		code = EXIT_USAGE;
	return code;
}

struct bulk {
	struct cli *cli;
	struct store *store;
	const struct enqueue *model;
	struct arena arena;
	struct enqueue jobs[BULK_BATCH];
	int n;
	int64_t done, line, begun_ms, shown_ms;
};

static void show_progress(struct bulk *b)
{
	int64_t now = clock_boot_ms();
	if (!b->cli->tty_err || b->cli->quiet || now - b->begun_ms < 1000 || now - b->shown_ms < 100)
		return;
	b->shown_ms = now;
	fprintf(stderr, "\r\033[K%lld jobs, %lld/s", (long long)b->done,
	        (long long)(b->done * 1000 / (now - b->begun_ms)));
	fflush(stderr);
}

static defib_err flush_bulk(struct bulk *b, struct failure *f)
{
	int64_t ids[BULK_BATCH];
	defib_err err = b->n ? enqueue_jobs(b->store, b->jobs, b->n, ids, f) : DEFIB_OK;
	if (!err)
		b->done += b->n;
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
			code = cli_usage("%s has %lld bytes, a payload at most %d; keep what is large in a "
			                 "file, and its name in the job",
			                 where, (long long)len, LINE_MAX_BYTES);
		else if (!valid_json(line, where))
			code = EXIT_USAGE;
		if (code != EXIT_CLEAN)
			break;
		b->jobs[b->n] = *b->model;
		b->jobs[b->n++].payload = arena_strdup(&b->arena, line);
		if (b->n == BULK_BATCH)
			err = flush_bulk(b, f);
	}
	free(line);
	/* What came before a bad line is whole and good: it is kept, and said so. */
	if (!err)
		err = flush_bulk(b, f);
	if (b->shown_ms)
		fputs("\r\033[K", stderr);
	if (err)
		code = cli_queue_fail(f);
	return code != EXIT_CLEAN && b->done ? EXIT_PARTLY : code;
}

static int enqueue_bulk(struct cli *c, struct store *s, const char *url,
                        const struct enqueue *model, const char *path)
{
	struct failure f = {0};
	FILE *in = text_eq(path, "-") ? stdin : fopen(path, "re");
	if (!in)
		return cli_usage("cannot read %s: %s", path, strerror(errno));
	struct bulk *b = mem_alloc(sizeof *b);
	*b = (struct bulk){.cli = c, .store = s, .model = model, .begun_ms = clock_boot_ms()};
	int code = bulk_lines(b, in, &f);
	wake_send(s, url);
	if (c->json)
		printf("{\"enqueued\":%lld}\n", (long long)b->done);
	else if (!c->quiet)
		printf("%lld jobs enqueued\n", (long long)b->done);
	if (in != stdin)
		fclose(in);
	arena_release(&b->arena);
	free(b);
	return code;
}

static int enqueue_one(struct cli *c, struct store *s, const char *url, struct enqueue *job)
{
	struct failure f = {0};
	int64_t id = 0;
	if (c->nwords > 2) {
		int code = read_payload(c, c->words[2], &job->payload);
		if (code != EXIT_CLEAN)
			return code;
	}
	if (enqueue_jobs(s, job, 1, &id, &f))
		return cli_queue_fail(&f);
	wake_send(s, url);
	if (c->json)
		printf("{\"id\":%lld}\n", (long long)id);
	else
		printf("%lld\n", (long long)id);
	return EXIT_CLEAN;
}

int cmd_enqueue(struct cli *c)
{
	struct failure f = {0};
	struct enqueue job;
	struct store *s = NULL;
	const char *bulk = cli_value(c, "bulk");
	if (c->nwords < 2 || c->nwords > (bulk ? 2 : 3))
		return cli_usage(
			"defib enqueue takes a queue, a kind and a payload; see defib enqueue --help");
	int code = read_job(c, &job);
	if (code == EXIT_CLEAN)
		code = cli_load(c);
	if (code != EXIT_CLEAN)
		return code;
	const struct database *d = &c->settings.databases[0];
	struct store_options o = cli_store_options(d, NULL, false);
	if (store_open(&o, &s, &f))
		return cli_queue_fail(&f);
	code = bulk ? enqueue_bulk(c, s, d->url, &job, bulk) : enqueue_one(c, s, d->url, &job);
	store_close(s);
	return code;
}
