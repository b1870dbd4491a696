/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define PORT_MAX 65535

static bool is_loopback4(struct in_addr a)
{
	return (ntohl(a.s_addr) >> 24) == 127;
}

bool address_host(const char *text, struct address *out)
{
	char bare[sizeof out->host];
	struct in_addr four;
	struct in6_addr six;
	size_t n = strlen(text);
	bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
	if (brackets) {
		text++;
		n -= 2;
	}
	if (n == 0 || n >= sizeof bare)
		return false;
	memcpy(bare, text, n);
	bare[n] = '\0';
	*out = (struct address){0};
	if (!brackets && inet_pton(AF_INET, bare, &four) == 1) {
		out->loopback = is_loopback4(four);
		out->any = four.s_addr == INADDR_ANY;
		inet_ntop(AF_INET, &four, out->host, sizeof out->host);
		return true;
	}
	if (inet_pton(AF_INET6, bare, &six) != 1)
		return false;
	out->v6 = true;
	out->loopback = IN6_IS_ADDR_LOOPBACK(&six);
	out->any = IN6_IS_ADDR_UNSPECIFIED(&six);
	inet_ntop(AF_INET6, &six, out->host, sizeof out->host);
	return true;
}

bool address_parse(const char *text, struct address *out)
{
	const char *colon = strrchr(text, ':');
	char host[sizeof out->host + 2];
	int64_t port;
	if (!colon || (size_t)(colon - text) >= sizeof host || colon[1] < '0' || colon[1] > '9' ||
	    !int_parse(colon + 1, &port) || port > PORT_MAX)
		return false;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	/* Without brackets the last part of an IPv6 address would be taken for the port. */
	if (host[0] != '[' && strchr(host, ':'))
		return false;
	if (!address_host(text_eq(host, "localhost") ? "127.0.0.1" : host, out))
		return false;
	out->port = port;
	return true;
}

socklen_t address_socket(const struct address *a, struct sockaddr_storage *out)
{
	*out = (struct sockaddr_storage){0};
	if (a->v6) {
		struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)a->port);
		inet_pton(AF_INET6, a->host, &six->sin6_addr);
		return sizeof *six;
	}
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)a->port);
	inet_pton(AF_INET, a->host, &four->sin_addr);
	return sizeof *four;
}

void address_text(const struct address *a, char *to, size_t size)
{
	snprintf(to, size, a->v6 ? "[%s]:%lld" : "%s:%lld", a->host, (long long)a->port);
}
