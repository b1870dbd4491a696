/* SPDX-License-Identifier: Apache-2.0 */
/* spool_record.c: see spool_record.h. */
#include "worker/spool_record.h"

#include "base/crc32c.h"
#include "worker/spool_file.h"

#include <stddef.h>

#define RECORD_MAGIC 0x31505344u /* "DSP1" */
#define HEAD RECORD_HEAD

static uint32_t head_crc(const struct record_head *h)
{
	return crc32c(0, h, offsetof(struct record_head, head_crc));
}

/* A crash of the machine may leave a file that is longer than what was written: all zeros. */
static defib_err rest_is_zero(int fd, off_t at, bool *zero, struct failure *f)
{
	char chunk[4096];
	size_t got = 1;
	defib_err err = DEFIB_OK;

	for (*zero = true; *zero && got > 0 && !err; at += (off_t)got) {
		err = file_read(fd, chunk, sizeof chunk, at, &got, f);
		for (size_t i = 0; i < got && *zero; i++) {
			*zero = chunk[i] == 0;
		}
	}
	return err;
}

defib_err record_head(int fd, off_t at, off_t size, uint64_t last, struct record_head *h,
                      enum record_state *state, struct failure *f)
{
	size_t got;
	bool zero;

	if (at == size) {
		*state = RECORD_END;
		return DEFIB_OK;
	}
	defib_err err = file_read(fd, h, sizeof *h, at, &got, f);
	if (err) {
		return err;
	}
	if (got < sizeof *h) {
		*state = RECORD_SHORT;
		return DEFIB_OK;
	}
	if (h->magic == RECORD_MAGIC && h->head_crc == head_crc(h) && h->number > last) {
		*state = h->len > size - at - HEAD ? RECORD_SHORT : RECORD_GOOD;
		return DEFIB_OK;
	}
	err = rest_is_zero(fd, at, &zero, f);
	*state = zero ? RECORD_SHORT : RECORD_BAD;
	return err;
}

defib_err record_bytes(int fd, off_t at, const struct record_head *h, struct buf *into,
                       enum record_state *state, struct failure *f)
{
	char chunk[16384];
	uint32_t crc = 0;

	for (size_t done = 0, got; done < h->len; done += got) {
		size_t want = h->len - done < sizeof chunk ? h->len - done : sizeof chunk;
		defib_err err = file_read(fd, chunk, want, at + HEAD + (off_t)done, &got, f);
		if (err) {
			return err;
		}
		if (got == 0) {
			*state = RECORD_BAD; /* cut by somebody since its head was read */
			return DEFIB_OK;
		}
		crc = crc32c(crc, chunk, got);
		if (into) {
			buf_addn(into, chunk, got);
		}
	}
	*state = crc == h->bytes_crc ? RECORD_GOOD : RECORD_BAD;
	return DEFIB_OK;
}

/* Whether a whole good record with a higher number stands at `at`. */
static defib_err is_record(int fd, off_t at, off_t size, uint64_t last, bool *is, struct failure *f)
{
	struct record_head h;
	enum record_state state;
	size_t got;
	*is = false;
	defib_err err = file_read(fd, &h, sizeof h, at, &got, f);
	if (err || got < sizeof h || h.magic != RECORD_MAGIC || h.head_crc != head_crc(&h) ||
	    h.number <= last || h.len > size - at - HEAD) {
		return err;
	}
	err = record_bytes(fd, at, &h, NULL, &state, f);
	*is = !err && state == RECORD_GOOD;
	return err;
}

defib_err record_next(int fd, off_t at, off_t size, uint64_t last, off_t *next, struct failure *f)
{
	static const uint32_t magic = RECORD_MAGIC;
	char chunk[65536];
	size_t got = sizeof chunk;
	defib_err err = DEFIB_OK;
	for (off_t from = at + 1; !err && got >= sizeof magic;
	     from += (off_t)(got - sizeof magic + 1)) {
		err = file_read(fd, chunk, sizeof chunk, from, &got, f);
		for (size_t i = 0; !err && i + sizeof magic <= got; i++) {
			bool is = false;
			if (memcmp(chunk + i, &magic, sizeof magic) == 0) {
				err = is_record(fd, from + (off_t)i, size, last, &is, f);
			}
			if (is) {
				*next = from + (off_t)i;
				return err;
			}
		}
	}
	*next = size;
	return err;
}

void record_build(uint64_t number, const char *bytes, size_t n, struct buf *out)
{
	struct record_head h = {
		.magic = RECORD_MAGIC,
		.len = (uint32_t)n,
		.number = number,
		.bytes_crc = crc32c(0, bytes, n),
	};

	h.head_crc = head_crc(&h);
	buf_addn(out, (const char *)&h, sizeof h);
	buf_addn(out, bytes, n);
}
