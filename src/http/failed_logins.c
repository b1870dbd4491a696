/* failed_logins.c: see failed_logins.h. */
#include "http/failed_logins.h"

#include <assert.h>
#include <netinet/in.h>

/* An address is looked for in a few places only, so that a full table costs nothing. */
#define NEIGHBOURS 16
_Static_assert(STRIKE_PLACES % NEIGHBOURS == 0, "places are groups of neighbours");

uint64_t failed_logins_who(const struct sockaddr *from)
{
	uint64_t n = 1;
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)from;
		n = (UINT64_C(1) << 32) | ntohl(four->sin_addr.s_addr);
	} else if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
		bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr); /* IPv4 through a socket for both */
		n = mapped;
		for (int i = mapped ? 12 : 0; i < (mapped ? 16 : 8); i++)
			n = n << 8 | six->sin6_addr.s6_addr[i];
	}
	return n ? n : 1;
}

static int group_of(uint64_t who)
{
	uint64_t mixed = who * UINT64_C(0x9e3779b97f4a7c15);
	return (int)((mixed >> 32) % (STRIKE_PLACES / NEIGHBOURS)) * NEIGHBOURS;
}

static int64_t fill_now(const struct failed_login *row, int64_t now_ms)
{
	int64_t left = row->fill_ms - (now_ms - row->at_ms);
	return left > 0 ? left : 0;
}

int64_t failed_logins_wait_s(const struct failed_logins *s, uint64_t who, int64_t now_ms)
{
	const struct failed_login *group = &s->rows[group_of(who)];
	assert(who != 0);
	for (int i = 0; i < NEIGHBOURS; i++) {
		if (group[i].who != who)
			continue;
		int64_t over = fill_now(&group[i], now_ms) - (STRIKES_MAX - 1) * (int64_t)STRIKE_MS;
		return over > 0 ? (over + 999) / 1000 : 0;
	}
	return 0;
}

void failed_logins_add(struct failed_logins *s, uint64_t who, int64_t now_ms)
{
	struct failed_login *group = &s->rows[group_of(who)], *row = &group[0];
	assert(who != 0);
	for (int i = 0; i < NEIGHBOURS && row->who != who; i++)
		if (group[i].who == who || group[i].at_ms < row->at_ms)
			row = &group[i];
	int64_t most = STRIKES_MAX * (int64_t)STRIKE_MS;
	int64_t fill = STRIKE_MS + (row->who == who ? fill_now(row, now_ms) : 0);
	*row = (struct failed_login){who, fill < most ? fill : most, now_ms};
}
