/* SPDX-License-Identifier: Apache-2.0
 * metrics.c: see metrics.h. The registry, and its text for scrapes.
 *
 * A series is found by a hash over its metric and label values, and is also in its metric's list:
 * writing is one lookup, a scrape walks the lists.
 */
#include "daemon/metrics.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

struct metric_series {
	enum metric id;
	char *labels[METRIC_LABELS_MAX]; /* as many as the metric has */
	double value;                    /* a histogram: how many were observed */
	double sum;
	uint64_t *counts; /* of a histogram, one per bound */
	uint32_t hash;
	struct metric_series *next; /* in its chain */
};

struct family {
	struct metric_series **all; /* in order of appearance */
	int n;
};

#define METRICS_CHAINS 1024
struct metrics {
	pthread_mutex_t lock; /* recursive: metrics_hold() is nested with the rest */
	struct family families[METRIC_COUNT];
	struct metric_series *chains[METRICS_CHAINS];
	int n;
};

#define LABEL_BYTES 128 /* of a label's value; the rest is cut off */

/* ---- the table ---- */

#define X(id, ...) static const double bounds_##id[] = {__VA_ARGS__};
METRIC_BUCKETS_LIST(X)
#undef X

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
/* clang-format off */
#define LABELS_OF(...) {__VA_ARGS__}
#define X(id, ...) \
	_Static_assert(COUNT_OF(bounds_##id) <= METRIC_BOUNDS_MAX, "METRIC_BOUNDS_MAX");
METRIC_BUCKETS_LIST(X)
#undef X

static const struct metric_about abouts[METRIC_COUNT] = {
#define X(id, kind, name, labels, buckets, help) \
	[METRIC_##id] = {name, help, METRIC_##kind, LABELS_OF labels, bounds_##buckets, \
	                 METRIC_##kind == METRIC_HISTOGRAM ? COUNT_OF(bounds_##buckets) : 0},
	METRIC_LIST(X)
#undef X
};
/* clang-format on */

const struct metric_about *metric_about(enum metric id)
{
	assert(id >= 0 && id < METRIC_COUNT);
	return &abouts[id];
}

/* ---- creation and end ---- */

struct metrics *metrics_new(void)
{
	struct metrics *m = mem_alloc(sizeof *m);
	pthread_mutexattr_t nested;
	pthread_mutexattr_init(&nested);
	pthread_mutexattr_settype(&nested, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&m->lock, &nested);
	pthread_mutexattr_destroy(&nested);
	return m;
}

static void free_series(struct metric_series *s)
{
	for (int i = 0; i < METRIC_LABELS_MAX; i++)
		free(s->labels[i]);
	free(s->counts);
	free(s);
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	for (int id = 0; id < METRIC_COUNT; id++) {
		for (int i = 0; i < m->families[id].n; i++)
			free_series(m->families[id].all[i]);
		free(m->families[id].all);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void metrics_hold(struct metrics *m)
{
	if (m)
		pthread_mutex_lock(&m->lock);
}

void metrics_let(struct metrics *m)
{
	if (m)
		pthread_mutex_unlock(&m->lock);
}

/* ---- series ---- */

/* The label values as stored: well-formed and bounded. */
struct key {
	char values[METRIC_LABELS_MAX][LABEL_BYTES];
	uint32_t hash;
};

static void make_key(enum metric id, const char *const *labels, struct key *k)
{
	uint32_t h = 2166136261u ^ (uint32_t)id;
	for (int i = 0; metric_about(id)->labels[i]; i++) {
		utf8_copy(k->values[i], sizeof k->values[i], labels[i] ? labels[i] : "");
		for (const char *c = k->values[i]; *c; c++)
			h = (h ^ (unsigned char)*c) * 16777619u;
		h = (h ^ 0xff) * 16777619u;
	}
	k->hash = h;
}

static struct metric_series *metrics_find(const struct metrics *m, enum metric id,
                                          const struct key *k)
{
	const struct metric_about *about = metric_about(id);
	for (struct metric_series *s = m->chains[k->hash % METRICS_CHAINS]; s; s = s->next) {
		bool same = s->hash == k->hash && s->id == id;
		for (int i = 0; about->labels[i] && same; i++)
			same = text_eq(s->labels[i], k->values[i]);
		if (same)
			return s;
	}
	return NULL;
}

static struct metric_series *metrics_make(struct metrics *m, enum metric id, const struct key *k)
{
	const struct metric_about *about = metric_about((enum metric)id);
	struct family *f = &m->families[id];
	struct metric_series *s = mem_alloc(sizeof *s);
	s->id = id;
	s->hash = k->hash;
	for (int i = 0; about->labels[i]; i++)
		s->labels[i] = mem_strdup(k->values[i]);
	if (about->nbounds)
		s->counts = mem_alloc(sizeof *s->counts * (size_t)about->nbounds);
	s->next = m->chains[k->hash % METRICS_CHAINS];
	m->chains[k->hash % METRICS_CHAINS] = s;
	f->all = mem_grow(f->all, sizeof(struct metric_series *) * (size_t)(f->n + 1));
	f->all[f->n++] = s;
	m->n++;
	return s;
}

/* The series, created if necessary; NULL: there are too many, which is counted. */
static struct metric_series *series(struct metrics *m, enum metric id, const char *const *labels)
{
	struct key k;
	make_key(id, labels, &k);
	struct metric_series *s = metrics_find(m, id, &k);
	if (s)
		return s;
	if (m->n < METRICS_SERIES_MAX && m->families[id].n < METRICS_FAMILY_MAX)
		return metrics_make(m, id, &k);
	struct key none;
	make_key(METRIC_SERIES_DROPPED, NO_LABELS, &none);
	s = metrics_find(m, METRIC_SERIES_DROPPED, &none);
	s = s ? s : metrics_make(m, METRIC_SERIES_DROPPED, &none);
	s->value++;
	return NULL;
}

/* ---- writing ---- */

void metrics_set(struct metrics *m, enum metric id, double value, const char *const *labels)
{
	assert(metric_about(id)->kind != METRIC_HISTOGRAM);
	if (!m)
		return;
	metrics_hold(m);
	struct metric_series *s = series(m, id, labels);
	if (s)
		s->value = value;
	metrics_let(m);
}

void metrics_add(struct metrics *m, enum metric id, double by, const char *const *labels)
{
	const struct metric_about *about = metric_about(id);
	assert(about->kind == METRIC_GAUGE || (about->kind == METRIC_COUNTER && by >= 0));
	(void)about;
	if (!m)
		return;
	metrics_hold(m);
	struct metric_series *s = series(m, id, labels);
	if (s)
		s->value += by;
	metrics_let(m);
}

int metric_bucket(enum metric id, double seconds)
{
	const struct metric_about *about = metric_about(id);
	int i = 0;
	while (i < about->nbounds && seconds > about->bounds[i])
		i++;
	return i;
}

void metrics_observe_many(struct metrics *m, enum metric id, int bucket, double n, double sum,
                          const char *const *labels)
{
	const struct metric_about *about = metric_about(id);
	assert(about->kind == METRIC_HISTOGRAM && bucket >= 0 && bucket <= about->nbounds);
	if (!m)
		return;
	metrics_hold(m);
	struct metric_series *s = series(m, id, labels);
	if (s) {
		s->value += n;
		s->sum += sum;
		if (bucket < about->nbounds)
			s->counts[bucket] += (uint64_t)n;
	}
	metrics_let(m);
}

void metrics_observe(struct metrics *m, enum metric id, double seconds, const char *const *labels)
{
	seconds = seconds > 0 ? seconds : 0;
	metrics_observe_many(m, id, metric_bucket(id, seconds), 1, seconds, labels);
}

void metrics_set_buckets(struct metrics *m, enum metric id, const double *counts, double sum,
                         const char *const *labels)
{
	const struct metric_about *about = metric_about(id);
	assert(about->kind == METRIC_HISTOGRAM);
	if (!m)
		return;
	metrics_hold(m);
	struct metric_series *s = series(m, id, labels);
	if (s) {
		s->sum = sum;
		s->value = counts[about->nbounds];
		for (int i = 0; i < about->nbounds; i++) {
			s->counts[i] = (uint64_t)counts[i];
			s->value += counts[i];
		}
	}
	metrics_let(m);
}

void metrics_ready(struct metrics *m, enum metric id, const char *const *labels)
{
	if (!m)
		return;
	metrics_hold(m);
	(void)series(m, id, labels);
	metrics_let(m);
}

/* ---- reading ---- */

bool metrics_value(struct metrics *m, enum metric id, const char *const *labels, double *value,
                   double *sum)
{
	struct key k;
	if (!m)
		return false;
	make_key(id, labels, &k);
	metrics_hold(m);
	const struct metric_series *s = metrics_find(m, id, &k);
	if (s) {
		*value = s->value;
		if (sum)
			*sum = s->sum;
	}
	metrics_let(m);
	return s != NULL;
}

static bool metrics_matches(const struct metric_series *s, const char *const *labels)
{
	for (int i = 0; metric_about(s->id)->labels[i]; i++)
		if (labels[i] && !text_eq(labels[i], s->labels[i]))
			return false;
	return true;
}

double metrics_total(struct metrics *m, enum metric id, const char *const *labels)
{
	double total = 0;
	if (!m)
		return 0;
	metrics_hold(m);
	const struct family *f = &m->families[id];
	for (int i = 0; i < f->n; i++)
		total += metrics_matches(f->all[i], labels) ? f->all[i]->value : 0;
	metrics_let(m);
	return total;
}

/* ---- removing ---- */

static void unchain(struct metrics *m, const struct metric_series *s)
{
	struct metric_series **at = &m->chains[s->hash % METRICS_CHAINS];
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	m->n--;
}

void metrics_drop(struct metrics *m, enum metric id, const char *const *labels)
{
	int kept = 0;
	if (!m)
		return;
	metrics_hold(m);
	struct family *f = &m->families[id];
	for (int i = 0; i < f->n; i++) {
		struct metric_series *s = f->all[i];
		if (!metrics_matches(s, labels)) {
			f->all[kept++] = s;
			continue;
		}
		unchain(m, s);
		free_series(s);
	}
	f->n = kept;
	metrics_let(m);
}

static void put_label(enum metric id, const char *name, const char *value, const char **labels,
                      bool *has)
{
	const struct metric_about *about = metric_about((enum metric)id);
	*has = false;
	for (int i = 0; about->labels[i]; i++)
		if (text_eq(about->labels[i], name)) {
			labels[i] = value;
			*has = true;
		}
}

void metrics_forget(struct metrics *m, const char *database, const char *watch)
{
	metrics_hold(m);
	for (int id = 0; m && id < METRIC_COUNT; id++) {
		const char *labels[METRIC_LABELS_MAX] = {NULL};
		bool of_database, of_watch;
		put_label((enum metric)id, "database", database, labels, &of_database);
		put_label((enum metric)id, "watch", watch, labels, &of_watch);
		if (of_database && (of_watch || !watch))
			metrics_drop(m, (enum metric)id, labels);
	}
	metrics_let(m);
}

static const char *const kind_names[] = {
	[METRIC_GAUGE] = "gauge", [METRIC_COUNTER] = "counter", [METRIC_HISTOGRAM] = "histogram"};

const char *metric_kind_name(enum metric_kind kind)
{
	return kind_names[kind];
}

static void metrics_add_number(struct buf *out, double v)
{
	char text[40];
	if (isnan(v) || isinf(v)) {
		buf_add(out, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
		return;
	}
	snprintf(text, sizeof text, "%.15g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof text, "%.17g", v);
	buf_add(out, text);
}

/* With a decimal point even if it is whole: OpenMetrics' canonical form. */
static void add_bound(struct buf *out, double v)
{
	char text[40];
	snprintf(text, sizeof text, "%.15g", v);
	buf_add(out, text);
	if (!strpbrk(text, ".e"))
		buf_add(out, ".0");
}

static void add_label(struct buf *out, bool first, const char *name, const char *value)
{
	buf_addf(out, "%s%s=\"", first ? "" : ",", name);
	for (const char *c = value; *c; c++) {
		if (*c == '\\' || *c == '"')
			buf_addch(out, '\\');
		if (*c == '\n')
			buf_add(out, "\\n");
		else
			buf_addch(out, *c);
	}
	buf_addch(out, '"');
}

/* `bound` NULL: no le label. */
static void add_labels(struct buf *out, const struct metric_about *about,
                       const struct metric_series *s, const char *bound)
{
	if (!about->labels[0] && !bound)
		return;
	buf_addch(out, '{');
	for (int i = 0; about->labels[i]; i++)
		add_label(out, i == 0, about->labels[i], s->labels[i]);
	if (bound)
		add_label(out, !about->labels[0], "le", bound);
	buf_addch(out, '}');
}

static void add_sample(struct buf *out, const struct metric_about *about,
                       const struct metric_series *s, const char *suffix, const char *bound,
                       double value)
{
	buf_addf(out, "%s%s", about->name, suffix);
	add_labels(out, about, s, bound);
	buf_addch(out, ' ');
	metrics_add_number(out, value);
	buf_addch(out, '\n');
}

static void add_histogram(struct buf *out, const struct metric_about *about,
                          const struct metric_series *s)
{
	uint64_t so_far = 0;
	AUTO_BUF bound = BUF_INIT;
	for (int i = 0; i < about->nbounds; i++) {
		so_far += s->counts[i];
		buf_clear(&bound);
		add_bound(&bound, about->bounds[i]);
		add_sample(out, about, s, "_bucket", buf_text(&bound), (double)so_far);
	}
	add_sample(out, about, s, "_bucket", "+Inf", s->value);
	add_sample(out, about, s, "_sum", NULL, s->sum);
	add_sample(out, about, s, "_count", NULL, s->value);
}

static bool ends_with(const char *name, size_t len, const char *end)
{
	size_t n = strlen(end);
	return len > n && memcmp(name + len - n, end, n) == 0;
}

/* # HELP, # TYPE and, in OpenMetrics, # UNIT, which the name must end with. */
static void add_head(struct buf *out, const struct metric_about *about, bool openmetrics)
{
	static const char *const units[] = {"seconds", "bytes"};
	size_t len = strlen(about->name);
	if (openmetrics && about->kind == METRIC_COUNTER)
		len -= strlen("_total");
	buf_addf(out, "# HELP %.*s %s\n", (int)len, about->name, about->help);
	buf_addf(out, "# TYPE %.*s %s\n", (int)len, about->name, kind_names[about->kind]);
	for (size_t i = 0; openmetrics && i < sizeof units / sizeof *units; i++)
		if (ends_with(about->name, len, units[i]))
			buf_addf(out, "# UNIT %.*s %s\n", (int)len, about->name, units[i]);
}

static void add_series(struct buf *out, const struct metric_about *about,
                       const struct metric_series *s)
{
	if (about->kind == METRIC_HISTOGRAM)
		add_histogram(out, about, s);
	else
		add_sample(out, about, s, "", NULL, s->value);
}

static int by_labels(const void *a, const void *b)
{
	const struct metric_series *x = *(struct metric_series *const *)a,
							   *y = *(struct metric_series *const *)b;
	int order = 0;
	for (int i = 0; !order && metric_about(x->id)->labels[i]; i++)
		order = strcmp(x->labels[i], y->labels[i]);
	return order;
}

/* The labels that an alias keeps come first in every metric. */
static int kept_labels(const struct metric_about *about)
{
	int n = 0;
	while (about->labels[n] &&
	       (text_eq(about->labels[n], "watch") || text_eq(about->labels[n], "worker") ||
	        text_eq(about->labels[n], "database")))
		n++;
	return n;
}

static bool same_labels(const struct metric_series *a, const struct metric_series *b, int n)
{
	for (int i = 0; i < n; i++)
		if (!text_eq(a->labels[i], b->labels[i]))
			return false;
	return true;
}

static void add_alias(struct buf *out, const struct family *f, const struct metric_alias *alias,
                      bool openmetrics)
{
	struct metric_about about = *metric_about(alias->id);
	int kept = kept_labels(&about);
	size_t bytes = sizeof(struct metric_series *) * (size_t)f->n;
	struct metric_series **all = f->n ? mem_alloc(bytes) : NULL;
	about.name = alias->name;
	about.labels[kept] = NULL;
	if (f->n) {
		memcpy(all, f->all, bytes);
		qsort(all, (size_t)f->n, sizeof(struct metric_series *), by_labels);
		add_head(out, &about, openmetrics);
	}
	for (int i = 0, next; i < f->n; i = next) {
		uint64_t counts[METRIC_BOUNDS_MAX] = {0};
		struct metric_series sum = *all[i];
		sum.value = sum.sum = 0;
		sum.counts = counts;
		for (next = i; next < f->n && same_labels(all[i], all[next], kept); next++) {
			sum.value += all[next]->value;
			sum.sum += all[next]->sum;
			for (int k = 0; k < about.nbounds; k++)
				counts[k] += all[next]->counts[k];
		}
		add_series(out, &about, &sum);
	}
	free(all);
}

void metrics_write(struct metrics *m, const struct metric_aliases *aliases, bool openmetrics,
                   struct buf *out)
{
	metrics_hold(m);
	for (int id = 0; m && id < METRIC_COUNT; id++) {
		const struct metric_about *about = metric_about((enum metric)id);
		const struct family *f = &m->families[id];
		if (f->n)
			add_head(out, about, openmetrics);
		for (int i = 0; i < f->n; i++)
			add_series(out, about, f->all[i]);
	}
	for (int i = 0; m && aliases && i < aliases->n; i++)
		add_alias(out, &m->families[aliases->items[i].id], &aliases->items[i], openmetrics);
	metrics_let(m);
	if (openmetrics)
		buf_add(out, "# EOF\n");
}
