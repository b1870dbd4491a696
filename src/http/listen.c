/* listen.c: see listen.h. */
#include "http/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#define BACKLOG 1024 /* a burst of clients; the kernel cuts it to its own limit */

static const struct {
	int number;
	const char *next;
} advice[] = {
	{EADDRINUSE, "another process listens there: choose another port, or 0 for a free one"},
	{EADDRNOTAVAIL, "the address is not one of this host"},
	{EACCES, "ports below 1024 need a privilege (CAP_NET_BIND_SERVICE): choose a higher one"},
};

static defib_err refuse(const struct address *at, int number, struct failure *f)
{
	char text[80];
	address_text(at, text, sizeof text);
	fail(f, DEFIB_CONFIG, "cannot listen on %s: %s", text, strerror(number));
	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
		if (advice[i].number == number)
			fail_next(f, "%s", advice[i].next);
	return DEFIB_CONFIG;
}

static int real_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} own = {0};
	socklen_t n = sizeof own;
	if (getsockname(fd, &own.any, &n) != 0)
		return 0;
	return ntohs(own.any.sa_family == AF_INET6 ? own.six.sin6_port : own.four.sin_port);
}

defib_err listen_open(struct address *at, int *fd, struct failure *f)
{
	struct sockaddr_storage where;
	socklen_t n = address_socket(at, &where);
	int on = 1, off = 0;
	*fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return refuse(at, errno, f);
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (at->v6)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(*fd, (struct sockaddr *)&where, n) != 0 || listen(*fd, BACKLOG) != 0) {
		int number = errno;
		close(*fd);
		*fd = -1;
		return refuse(at, number, f);
	}
	at->port = real_port(*fd);
	return DEFIB_OK;
}
