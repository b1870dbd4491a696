/* SPDX-License-Identifier: Apache-2.0
 * address.h: an address to listen on, ADDR:PORT. ADDR is a literal ("127.0.0.1", "[::1]") or
 * "localhost". Host names are not resolved: the answer could change after the address was checked.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
	char host[64]; /* the literal, without brackets */
	int64_t port;
	bool v6;
	bool loopback;
	bool any; /* 0.0.0.0 or :: */
};

bool address_parse(const char *text, struct address *out);
/* Only the host: "127.0.0.1", "::1", "[::1]". False if it is not a literal. */
bool address_host(const char *text, struct address *out);
/* As the system calls take it. Returns its size. */
socklen_t address_socket(const struct address *a, struct sockaddr_storage *out);
/* "127.0.0.1:80", "[::1]:80" */
void address_text(const struct address *a, char *to, size_t size);

#endif
