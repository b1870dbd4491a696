/* SPDX-License-Identifier: Apache-2.0
 * clock.c: clocks, durations and instants.
 *
 * Durations are summed in whole microseconds, digit by digit: "0.1s" is exactly 100000, which a
 * double does not guarantee.
 */
#include "base/clock.h"

#include <assert.h>
#include <ctype.h>
#include <sys/random.h>
#include <unistd.h>

#define US_PER_M (60 * US_PER_S)

struct unit {
	const char *name, *shown; /* what is read, and what is written */
	int64_t us;
};

/* Largest first: duration_text walks down it. */
static const struct unit units[] = {
	{"d", "d", DAY_US},   {"h", "h", HOUR_US}, {"m", "m", US_PER_M},
	{"s", "s", US_PER_S}, {"ms", " ms", 1000}, {"us", " µs", 1},
};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

static int64_t clock_us(clockid_t id)
{
	struct timespec now;
	int rc = clock_gettime(id, &now);
	assert(rc == 0);
	(void)rc;
	return now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

int64_t clock_boot_us(void)
{
	return clock_us(CLOCK_BOOTTIME);
}

int64_t clock_boot_ms(void)
{
	return clock_boot_us() / 1000;
}

int64_t clock_wall_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

static const struct unit *unit_find(const char *text, size_t n)
{
	for (size_t i = 0; i < UNITS; i++)
		if (strlen(units[i].name) == n && !memcmp(units[i].name, text, n))
			return &units[i];
	return NULL;
}

/* The length of " ms" or " µs", as duration_text writes them; 0: neither. */
static size_t unit_shown(const char *text)
{
	return text_starts(text, " ms") ? strlen(" ms") : text_starts(text, " µs") ? strlen(" µs") : 0;
}

struct amount {
	int64_t whole;
	int64_t part, scale; /* the fraction part/scale, scale a power of ten */
};

/* "12", "1.5", ".5": false if there are no digits or too many. */
static bool clock_amount_parse(const char **text, struct amount *out)
{
	const char *p = *text;
	int digits = 0;
	*out = (struct amount){0, 0, 1};
	for (; isdigit((unsigned char)*p); p++, digits++) {
		out->whole = out->whole * 10 + (*p - '0');
		if (out->whole > DURATION_MOST_US)
			return false;
	}
	if (*p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, digits++) {
			/* Digits beyond a millionth make no difference in any of our units. */
			if (out->scale < 1000000) {
				out->part = out->part * 10 + (*p - '0');
				out->scale *= 10;
			}
		}
	}
	*text = p;
	return digits > 0;
}

/* One "90s" of "1h90s", with the blanks before it. */
static bool term_parse(const char **text, int64_t *us)
{
	struct amount amount;
	const char *p = *text;
	if (!clock_amount_parse(&p, &amount))
		return false;
	size_t n = unit_shown(p);
	const struct unit *unit = n ? unit_find(n == strlen(" ms") ? "ms" : "us", 2) : NULL;
	while (!unit && isalpha((unsigned char)p[n]))
		n++;
	if (!unit)
		unit = unit_find(p, n);
	if (!unit || amount.whole > DURATION_MOST_US / unit->us)
		return false;
	*us = amount.whole * unit->us + amount.part * unit->us / amount.scale;
	*text = p + n;
	return true;
}

bool duration_parse(const char *text, int64_t *us)
{
	int64_t sum = 0, term;
	do {
		if (!term_parse(&text, &term))
			return false;
		sum += term;
		if (sum > DURATION_MOST_US)
			return false;
		/* "2h 5m", as duration_text writes it; but no space at the end. */
		if (*text == ' ')
			text++;
		else if (!*text)
			break;
	} while (true);
	*us = sum;
	return true;
}

int64_t elapsed_us(int64_t from_us, int64_t to_us)
{
	return to_us > from_us ? to_us - from_us : 0;
}

void duration_text(int64_t us, struct buf *out)
{
	if (us < 0)
		us = 0;
	size_t i = 0;
	while (i < UNITS - 1 && us < units[i].us)
		i++;
	buf_addf(out, "%lld%s", (long long)(us / units[i].us), us ? units[i].shown : "s");
	/* A second unit helps from minutes up; "45s 3ms" does not. */
	if (units[i].us < US_PER_M)
		return;
	int64_t rest = us % units[i].us / units[i + 1].us;
	if (rest)
		buf_addf(out, " %lld%s", (long long)rest, units[i + 1].shown);
}

static void put_digits(char *at, int n, int value)
{
	for (; n > 0; value /= 10)
		at[--n] = (char)('0' + value % 10);
}

/* Evidence has several of them for every job, and printf is ten times slower. */
static void add_instant(const struct tm *tm, int ms, struct buf *out)
{
	char text[] = "0000-00-00T00:00:00.000Z";
	put_digits(text, 4, tm->tm_year + 1900);
	put_digits(text + 5, 2, tm->tm_mon + 1);
	put_digits(text + 8, 2, tm->tm_mday);
	put_digits(text + 11, 2, tm->tm_hour);
	put_digits(text + 14, 2, tm->tm_min);
	put_digits(text + 17, 2, tm->tm_sec);
	put_digits(text + 20, 3, ms);
	buf_addn(out, text, sizeof text - 1);
}

void time_iso(int64_t us, struct buf *out)
{
	/* Floor, so that instants before 1970 keep their milliseconds positive. */
	int64_t ms = us / 1000 - (us % 1000 < 0);
	int64_t in_second = ms % 1000;
	if (in_second < 0)
		in_second += 1000;
	time_t seconds = (time_t)((ms - in_second) / 1000);
	struct tm tm;
	char day[64];
	if (gmtime_r(&seconds, &tm) && tm.tm_year >= -900 && tm.tm_year <= 8099) {
		add_instant(&tm, (int)in_second, out);
		return;
	}
	/* A year beyond 2^31 is not a date that anyone wrote. */
	if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm)) {
		buf_addf(out, "%llds", (long long)seconds);
		return;
	}
	buf_addf(out, "%s.%03dZ", day, (int)in_second);
}

bool time_parse(const char *text, int64_t *us)
{
	struct tm tm = {0};
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	if (!rest)
		return false;
	*us = (int64_t)timegm(&tm) * US_PER_S;
	if (*rest == '.')
		*us += (int64_t)(strtod(rest, NULL) * 1e6 + 0.5);
	return true;
}

/* ---- chance ---- */

void chance_seed(struct chance *c)
{
	if (getrandom(&c->state, sizeof c->state, GRND_NONBLOCK) != (ssize_t)sizeof c->state)
		c->state = (uint64_t)clock_wall_us() ^ ((uint64_t)getpid() << 40);
}

/* splitmix64: every seed is good, even neighbouring ones. */
double chance_draw(struct chance *c)
{
	uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 53);
}

bool chance_bytes(void *out, size_t n)
{
	return getrandom(out, n, 0) == (ssize_t)n;
}
