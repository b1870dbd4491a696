/* SPDX-License-Identifier: Apache-2.0
 * incarnation.c: describes a process so that no other can be confused with it.
 *
 * A pid is reused, but not together with its start time. A pid is only valid on one kernel and in
 * one PID namespace, a start time only in one time namespace. The nonce distinguishes two
 * incarnations within the same process.
 */
#include "life/incarnation.h"

#include "base/clock.h"
#include "life/process.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS 7
#define TEXT_MAX 256

/* The beginning of a small file, as text; false if it cannot be read or is empty. */
static bool read_text(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = TEMP_FAILURE_RETRY(read(fd, out, size - 1));
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The text form is separated by slashes and is logged: the name must not contain one. */
static void host_name(char *out, size_t size)
{
	if (gethostname(out, size) != 0 || out[0] == '\0')
		snprintf(out, size, "unknown");
	out[size - 1] = '\0';
	for (char *c = out; *c; c++)
		if (*c == '/' || !isgraph((unsigned char)*c))
			*c = '-';
}

static bool is_boot_id(const char *text)
{
	return strlen(text) == 36 && strspn(text, "0123456789abcdef-") == 36;
}

static bool is_nonce(const char *text)
{
	return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

static bool make_nonce(char out[17])
{
	uint64_t bits;
	if (!chance_bytes(&bits, sizeof bits))
		return false;
	snprintf(out, 17, "%016" PRIx64, bits);
	return true;
}

/* Its inode. ENOENT: this kernel has no namespaces of this kind. */
static bool namespace_of(const char *kind, uint64_t *out)
{
	struct stat ns;
	char path[32];
	snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
	if (stat(path, &ns) != 0)
		return false;
	*out = ns.st_ino;
	return true;
}

defib_err incarnation_self(struct incarnation *out, struct failure *f)
{
	memset(out, 0, sizeof *out);
	host_name(out->host, sizeof out->host);
	if (!read_text("/proc/sys/kernel/random/boot_id", out->boot_id, sizeof out->boot_id) ||
	    !is_boot_id(out->boot_id))
		return fail(f, DEFIB_IO, "cannot read this kernel's boot id: %s", strerror(errno));
	if (!namespace_of("pid", &out->pid_ns))
		return fail(f, DEFIB_IO, "cannot read this process's PID namespace: %s", strerror(errno));
	if (!namespace_of("time", &out->time_ns) && errno != ENOENT)
		return fail(f, DEFIB_IO, "cannot read this process's time namespace: %s", strerror(errno));
	out->pid = getpid();
	out->start = process_start(out->pid);
	if (out->start == 0)
		return fail(f, DEFIB_IO, "cannot read this process's start time from /proc/self/stat");
	if (!make_nonce(out->nonce))
		return fail(f, DEFIB_IO, "cannot get random bytes: %s", strerror(errno));
	return DEFIB_OK;
}

void incarnation_text(const struct incarnation *i, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/%s/%" PRIu64 "/%" PRIu64 "/%d/%" PRIu64 "/%s", i->host,
	                 i->boot_id, i->pid_ns, i->time_ns, i->pid, i->start, i->nonce);
	assert(n > 0 && (size_t)n < size); /* truncated, it would name another incarnation */
	(void)n;
}

/* Split at the slashes; false unless there are exactly PARTS parts. */
static bool split(char *text, char *parts[PARTS])
{
	for (int i = 0; i < PARTS; i++) {
		parts[i] = text;
		char *slash = strchr(text, '/');
		if ((slash == NULL) != (i == PARTS - 1))
			return false;
		if (slash) {
			*slash = '\0';
			text = slash + 1;
		}
	}
	return true;
}

static bool incarnation_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *out <= max;
}

bool incarnation_parse(const char *text, struct incarnation *out)
{
	char copy[TEXT_MAX], again[TEXT_MAX];
	char *part[PARTS];
	uint64_t pid;
	memset(out, 0, sizeof *out);
	if (strlen(text) >= sizeof copy)
		return false;
	snprintf(copy, sizeof copy, "%s", text);
	if (!split(copy, part) || part[0][0] == '\0' || strlen(part[0]) >= sizeof out->host ||
	    !is_boot_id(part[1]) || !incarnation_number(part[2], UINT64_MAX, &out->pid_ns) ||
	    !incarnation_number(part[3], UINT64_MAX, &out->time_ns) ||
	    !incarnation_number(part[4], INT_MAX, &pid) || pid == 0 ||
	    !incarnation_number(part[5], UINT64_MAX, &out->start) || !is_nonce(part[6]))
		return false;
	snprintf(out->host, sizeof out->host, "%s", part[0]);
	snprintf(out->boot_id, sizeof out->boot_id, "%s", part[1]);
	snprintf(out->nonce, sizeof out->nonce, "%s", part[6]);
	out->pid = (pid_t)pid;
	/* An incarnation has exactly one text: other signs, spaces and leading zeros are rejected. */
	incarnation_text(out, again, sizeof again);
	return strcmp(text, again) == 0;
}

bool incarnation_same_host(const struct incarnation *a, const struct incarnation *b)
{
	return a->pid_ns == b->pid_ns && strcmp(a->boot_id, b->boot_id) == 0;
}

/* ---- a worker as its row describes it ---- */

bool serves_watch(const char *serves, const char *watch)
{
	size_t len = strlen(watch);
	if (!serves)
		return true;
	for (const char *line = serves; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, watch, len) == 0 && (line[len] == '\0' || line[len] == '\n'))
			return true;
	}
	return false;
}

bool serves_other(const char *serves, const char *const *watches, int n)
{
	for (const char *line = serves; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t len = strcspn(line, "\n");
		int i = 0;
		while (i < n && (strlen(watches[i]) != len || strncmp(watches[i], line, len) != 0))
			i++;
		if (i == n)
			return true;
	}
	return !serves;
}
