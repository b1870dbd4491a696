/*
 * server_strict.c: what a proxy in front of us could read differently is refused.
 *
 * The library is lenient: it takes a length beside an encoding, the one or the other of two
 * lengths, lines that end with LF alone, folded lines. Whoever disagrees with it on where a
 * request ends can be made to take the rest for a request of somebody else's. It parses the head
 * in place, though: ends of lines and colons become zeros, the rest stays as it was sent. So the
 * head is walked again, line by line, before anything is made of it.
 */
#include "http/server_inside.h"

#include "base/text.h"

#include <ctype.h>
#include <stdint.h>

struct head {
	const char *bytes; /* as the library left them */
	size_t size, at;   /* where the line before ended */
	bool walks;        /* the library keeps heads as we know it */
	const char *why;   /* the first thing that is wrong */
	int hosts, lengths, encodings;
	bool old; /* HTTP/1.0 */
};

static bool is_token(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !memchr("!#$%&'*+-.^_`|~", text[i], 15))
			return false;
	return n > 0;
}

static bool is_value(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
			return false;
	return true;
}

static bool is_length(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return n > 0 && n <= 18;
}

/* Whether `n` bytes at the place are what a line's end became. */
static bool ended(const struct head *h, size_t n)
{
	static const char zeros[4];
	return h->at + n <= h->size && memcmp(h->bytes + h->at, zeros, n) == 0;
}

/* A pointer of the library's as a place in the head; SIZE_MAX: it is elsewhere. */
static size_t place(const struct head *h, const char *p)
{
	uintptr_t base = (uintptr_t)h->bytes, at = (uintptr_t)p;
	return at >= base && at <= base + h->size ? at - base : SIZE_MAX;
}

/* CRLF, a name, a colon, blanks, a value: each directly behind the other. */
static bool follows(struct head *h, const char *name, size_t nname, const char *value,
                    size_t nvalue)
{
	size_t value_at = place(h, value);
	if (!ended(h, 2) || place(h, name) != h->at + 2 || value_at == SIZE_MAX)
		return false;
	for (size_t i = h->at + 2 + nname + 1; i < value_at; i++)
		if (h->bytes[i] != ' ' && h->bytes[i] != '\t')
			return false;
	h->at = value_at + nvalue;
	return true;
}

static void judge_framing(struct head *h, const char *name, const char *value, size_t nvalue)
{
	while (nvalue > 0 && (value[nvalue - 1] == ' ' || value[nvalue - 1] == '\t'))
		nvalue--;
	if (strcasecmp(name, "Host") == 0 && ++h->hosts > 1)
		h->why = "the request has two Hosts";
	if (strcasecmp(name, "Content-Length") == 0) {
		h->lengths++;
		if (!is_length(value, nvalue))
			h->why = "Content-Length is no plain number";
	}
	if (strcasecmp(name, "Transfer-Encoding") == 0) {
		h->encodings++;
		if (nvalue != strlen("chunked") || strncasecmp(value, "chunked", nvalue) != 0)
			h->why = "Transfer-Encoding can only be chunked";
	}
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name, size_t nname,
                                 const char *value, size_t nvalue)
{
	struct head *h = ctx;
	(void)kind;
	value = value ? value : "";
	if (!is_token(name, nname))
		h->why = "the name of a header has a character that none has";
	else if (!is_value(value, nvalue))
		h->why = "the value of a header has a control character";
	else if (h->walks && !follows(h, name, nname, value, nvalue))
		h->why = "a line of the head does not end with CRLF, or is folded";
	else
		judge_framing(h, name, value, nvalue);
	return h->why ? MHD_NO : MHD_YES;
}

static const char *whole_refusal(const struct head *h)
{
	if (h->walks && !(ended(h, 4) && h->at + 4 == h->size))
		return "a line of the head does not end with CRLF";
	if (h->hosts == 0 && !h->old)
		return "the request has no Host";
	if (h->lengths > 1)
		return "the request has two Content-Lengths";
	if (h->encodings > 1)
		return "the request has two Transfer-Encodings";
	if (h->encodings && h->lengths)
		return "the request has a Content-Length and a Transfer-Encoding";
	if (h->encodings && h->old)
		return "HTTP/1.0 has no Transfer-Encoding";
	return NULL;
}

/* One blank behind the method, and one before the version. */
static bool is_line(const struct head *h, const char *method, const char *url, size_t version_at)
{
	return place(h, url) == strlen(method) + 1 && version_at >= 2 &&
	       h->bytes[version_at - 1] == '\0' && h->bytes[version_at - 2] != ' ';
}

const char *strict_refusal(struct MHD_Connection *socket, const char *method, const char *url,
                           const char *version, bool *chunked)
{
	const union MHD_ConnectionInfo *size =
		MHD_get_connection_info(socket, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct head h = {
		.bytes = method, .size = size ? size->header_size : 0, .old = text_eq(version, "HTTP/1.0")};
	size_t at = place(&h, version);
	h.walks = at != SIZE_MAX && at + strlen(version) <= h.size;
	h.at = h.walks ? at + strlen(version) : 0;
	if (h.walks && !is_line(&h, method, url, at))
		return "the first line has a blank too many";
	MHD_get_connection_values_n(socket, MHD_HEADER_KIND, on_header, &h);
	*chunked = h.encodings > 0;
	return h.why ? h.why : whole_refusal(&h);
}
