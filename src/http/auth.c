/* SPDX-License-Identifier: Apache-2.0 */
#include "http/auth.h"

#include "base/address.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_LEAST 16 /* shorter ones can be guessed */
#define SECRET_MOST 256

/* Padded with zeros, so that comparing takes the same time for any secret. */
struct secret {
	unsigned char bytes[SECRET_MOST];
};

struct token {
	struct secret secret;
	enum role role;
	char *actor;
};

struct auth {
	int n;
	struct token *tokens;
};

static const struct identity everybody = {ROLE_ADMIN, "web:loopback"};

static void secret_take(struct secret *s, const char *text, size_t n)
{
	assert(n <= sizeof s->bytes);
	memset(s, 0, sizeof *s);
	memcpy(s->bytes, text, n);
}

static bool secret_same(const struct secret *a, const struct secret *b)
{
	unsigned char differ = 0;
	for (size_t i = 0; i < sizeof a->bytes; i++)
		differ |= a->bytes[i] ^ b->bytes[i];
	return differ == 0;
}

/* The first line of the file, at most `size` - 1 bytes. */
static defib_err read_file(const char *path, char *to, size_t size, struct failure *f)
{
	struct stat info;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, to, size - 1) : -1;
	if (n < 0) {
		fail(f, DEFIB_CONFIG, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return DEFIB_CONFIG;
	}
	if (fstat(fd, &info) == 0 && (info.st_mode & S_IROTH))
		log_event(LOG_WARN, "the file of a token can be read by every user of this host",
		          LOG_STR("file", path));
	close(fd);
	to[n] = '\0';
	to[strcspn(to, "\r\n")] = '\0';
	return DEFIB_OK;
}

static defib_err check_secret(const char *text, struct failure *f)
{
	size_t n = strlen(text);
	if (n < SECRET_LEAST || n > SECRET_MOST) {
		fail(f, DEFIB_CONFIG, "a secret must have %d to %d characters; this one has %zu%s",
		     SECRET_LEAST, SECRET_MOST, n, n > SECRET_MOST ? " or more" : "");
		fail_next(f, "create one with: openssl rand -hex 32");
		return DEFIB_CONFIG;
	}
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~')
			return fail(f, DEFIB_CONFIG, "a secret must consist of visible ASCII characters");
	return DEFIB_OK;
}

static defib_err load_secret(const struct service_token *t, const char *(*env)(const char *name),
                             struct secret *out, struct failure *f)
{
	char text[SECRET_MOST + 2];
	if (t->env) {
		const char *value = env(t->env);
		if (!value)
			return fail(f, DEFIB_CONFIG, "the environment variable %s is not set", t->env);
		utf8_copy(text, sizeof text, value);
	} else {
		defib_err err = read_file(t->file, text, sizeof text, f);
		if (err)
			return err;
	}
	defib_err err = check_secret(text, f);
	if (!err)
		secret_take(out, text, strlen(text));
	explicit_bzero(text, sizeof text);
	return err;
}

static defib_err load_token(const struct service_token *t, const char *(*env)(const char *name),
                            struct auth *a, struct failure *f)
{
	struct token *own = &a->tokens[a->n];
	defib_err err = load_secret(t, env, &own->secret, f);
	for (int i = 0; !err && i < a->n; i++)
		if (secret_same(&a->tokens[i].secret, &own->secret))
			err =
				fail(f, DEFIB_CONFIG, "it has the same secret as another (%s)", a->tokens[i].actor);
	if (err) {
		fail_prefix(f, "token %s", t->name);
		return err;
	}
	struct buf actor = BUF_INIT;
	buf_addf(&actor, "web:%s", t->name);
	own->actor = buf_detach(&actor);
	own->role = (enum role)t->role;
	a->n++;
	return DEFIB_OK;
}

defib_err auth_load(const struct service *s, const char *(*env)(const char *name),
                    struct auth **out, struct failure *f)
{
	struct auth *a = mem_alloc(sizeof *a);
	defib_err err = DEFIB_OK;
	a->tokens = mem_alloc(sizeof *a->tokens * (size_t)(s->ntokens + 1));
	for (int i = 0; !err && i < s->ntokens; i++)
		err = load_token(&s->tokens[i], env, a, f);
	if (err) {
		auth_free(a);
		a = NULL;
	}
	*out = a;
	return err;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	for (int i = 0; i < a->n; i++)
		free(a->tokens[i].actor);
	explicit_bzero(a->tokens, sizeof *a->tokens * (size_t)a->n);
	free(a->tokens);
	free(a);
}

bool auth_has_tokens(const struct auth *a)
{
	return a->n > 0;
}

enum auth_answer auth_who(const struct auth *a, const char *authorization, struct identity *out)
{
	static const char scheme[] = "Bearer ";
	struct secret shown;
	const struct token *found = NULL;
	*out = (struct identity){ROLE_NONE, "web:nobody"};
	if (a->n == 0) {
		*out = everybody;
		return AUTH_KNOWN;
	}
	if (!authorization)
		return AUTH_ABSENT;
	if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
		return AUTH_WRONG;
	const char *text = authorization + sizeof scheme - 1;
	size_t n = strlen(text);
	if (n == 0 || n > sizeof shown.bytes)
		return AUTH_WRONG;
	secret_take(&shown, text, n);
	for (int i = 0; i < a->n; i++) /* all of them, also after the matching one */
		found = secret_same(&a->tokens[i].secret, &shown) ? &a->tokens[i] : found;
	explicit_bzero(&shown, sizeof shown);
	if (!found)
		return AUTH_WRONG;
	*out = (struct identity){found->role, found->actor};
	return AUTH_KNOWN;
}

/* The name in "name:80", "[::1]:80", "name"; false if it cannot be one. */
static bool auth_host_name(const char *host, char *to, size_t size)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
	end = end ? end + 1 : host + strcspn(host, ":");
	size_t n = (size_t)(end - host);
	if (n == 0 || n >= size || (*end && *end != ':') || strspn(end, ":0123456789") != strlen(end))
		return false;
	memcpy(to, host, n);
	to[n] = '\0';
	return true;
}

static bool is_our_name(const struct asked_from *q, const struct text_list *hosts)
{
	struct address asked, own;
	char name[256];
	if (!auth_host_name(q->host, name, sizeof name))
		return false;
	for (int i = 0; i < hosts->n; i++)
		if (strcasecmp(hosts->items[i], name) == 0 || strcasecmp(hosts->items[i], q->host) == 0)
			return true;
	if (strcasecmp(name, "localhost") == 0)
		return true;
	/* The owner of a name can make it resolve to another host; a literal cannot change. */
	if (!address_host(name, &asked) || !address_host(q->listen, &own))
		return false;
	return asked.loopback || own.any || text_eq(asked.host, own.host);
}

static bool is_our_origin(const struct asked_from *q)
{
	const char *at = strstr(q->origin, "://");
	bool http = text_starts(q->origin, "http://") || text_starts(q->origin, "https://");
	return http && strcasecmp(at + strlen("://"), q->host) == 0;
}

const char *auth_from_here(const struct asked_from *q, const struct text_list *hosts, int *status)
{
	bool reads = text_eq(q->method, "GET") || text_eq(q->method, "HEAD");
	if (!q->host) {
		*status = 400;
		return "the request has no Host";
	}
	if (!is_our_name(q, hosts)) {
		*status = 421;
		return "the request's Host is not a name of this server; add names to http: hosts:";
	}
	*status = 403;
	if (q->origin && !is_our_origin(q))
		return "the request comes from a page of another origin";
	if (q->fetch_site && !reads &&
	    (text_eq(q->fetch_site, "cross-site") || text_eq(q->fetch_site, "same-site")))
		return "the request comes from a page of another site";
	*status = 200;
	return NULL;
}

/* An address is searched for in a few slots only, so that a full table costs nothing. */
#define NEIGHBOURS 16
_Static_assert(FAILED_LOGIN_ROWS % NEIGHBOURS == 0, "places are groups of neighbours");

uint64_t failed_logins_who(const struct sockaddr *from)
{
	uint64_t n = 1;
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)from;
		n = (UINT64_C(1) << 32) | ntohl(four->sin_addr.s_addr);
	} else if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
		bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr); /* IPv4 through a dual-stack socket */
		n = mapped;
		for (int i = mapped ? 12 : 0; i < (mapped ? 16 : 8); i++)
			n = n << 8 | six->sin6_addr.s6_addr[i];
	}
	return n ? n : 1;
}

static int auth_group_of(uint64_t who)
{
	uint64_t mixed = who * UINT64_C(0x9e3779b97f4a7c15);
	return (int)((mixed >> 32) % (FAILED_LOGIN_ROWS / NEIGHBOURS)) * NEIGHBOURS;
}

static int64_t fill_now(const struct failed_login *row, int64_t now_ms)
{
	int64_t left = row->fill_ms - (now_ms - row->at_ms);
	return left > 0 ? left : 0;
}

int64_t failed_logins_wait_s(const struct failed_logins *s, uint64_t who, int64_t now_ms)
{
	const struct failed_login *group = &s->rows[auth_group_of(who)];
	assert(who != 0);
	for (int i = 0; i < NEIGHBOURS; i++) {
		if (group[i].who != who)
			continue;
		int64_t over =
			fill_now(&group[i], now_ms) - (FAILED_LOGINS_MAX - 1) * (int64_t)FAILED_LOGIN_MS;
		return over > 0 ? (over + 999) / 1000 : 0;
	}
	return 0;
}

void failed_logins_add(struct failed_logins *s, uint64_t who, int64_t now_ms)
{
	struct failed_login *group = &s->rows[auth_group_of(who)], *row = &group[0];
	assert(who != 0);
	for (int i = 0; i < NEIGHBOURS && row->who != who; i++)
		if (group[i].who == who || group[i].at_ms < row->at_ms)
			row = &group[i];
	int64_t most = FAILED_LOGINS_MAX * (int64_t)FAILED_LOGIN_MS;
	int64_t fill = FAILED_LOGIN_MS + (row->who == who ? fill_now(row, now_ms) : 0);
	*row = (struct failed_login){who, fill < most ? fill : most, now_ms};
}
