/* SPDX-License-Identifier: Apache-2.0
 * authorization.c: the headers that identify a caller, or by which a request is refused as not
 * meant for us: Authorization, Host, Origin and Sec-Fetch-Site, one per line. Only the token itself
 * is accepted, and only our own names as Host.
 */
#include "fuzz.h"

#include "base/mem.h"
#include "base/text.h"
#include "http/auth.h"

#define SECRET "0123456789abcdef-secret"

static const char *environment(const char *name)
{
	return strcmp(name, "TOKEN") == 0 ? SECRET : NULL;
}

static char *line(char **rest)
{
	return strsep(rest, "\n");
}

static void must_be_ours(const char *host)
{
	static const char *const names[] = {"localhost", "defib.example"};
	bool ours = host[0] == '[' || (host[0] >= '0' && host[0] <= '9');
	for (int i = 0; i < 2; i++) {
		size_t n = strlen(names[i]);
		ours = ours || (strncasecmp(host, names[i], n) == 0 && (!host[n] || host[n] == ':'));
	}
	MUST(ours);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static struct service_token token = {.name = "anna", .role = ROLE_OPERATOR, .env = "TOKEN"};
	static const char *const more[] = {"defib.example"};
	static const struct service service = {.ntokens = 1, .tokens = &token};
	static struct auth *auth;
	struct text_list hosts = {.n = 1, .items = (const char **)more};
	struct failure f = {0};
	if (!auth)
		MUST(auth_load(&service, environment, &auth, &f) == DEFIB_OK);
	char *text = fuzz_text(bytes, n), *rest = text;
	const char *shown = line(&rest);
	struct asked_from q = {.method = "POST", .listen = "127.0.0.1"};
	q.host = line(&rest);
	q.origin = line(&rest);
	q.fetch_site = line(&rest);
	struct identity id;
	bool right = strncasecmp(shown, "Bearer ", 7) == 0 && strcmp(shown + 7, SECRET) == 0;
	MUST((auth_who(auth, shown, &id) == AUTH_KNOWN) == right);
	MUST(id.role == (right ? ROLE_OPERATOR : ROLE_NONE));
	int status = 0;
	if (auth_from_here(&q, &hosts, &status)) {
		MUST(status == 400 || status == 403 || status == 421);
	} else {
		MUST(q.host);
		must_be_ours(q.host);
		MUST(!q.origin || strlen(q.origin) > strlen(q.host));
	}
	free(text);
	return 0;
}
