/* SPDX-License-Identifier: Apache-2.0
 * spool_mark.c: the mark's file has its full size from the start, so moving
 * the mark needs no room on the disk, not even on a full one.
 */
#include "worker/spool_mark.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "worker/spool_file.h"

#include <assert.h>
#include <unistd.h>

#define MARK_FILE "taken"
#define MARK_MAGIC 0x314b4d44u /* "DMK1" */
#define MARK_SLOTS 2
#define MARK_SPACING 4096 /* slots in different sectors: one torn write cannot hit both */

struct mark_slot {
	uint32_t magic;
	uint32_t crc; /* of taken */
	uint64_t taken;
};
_Static_assert(sizeof(struct mark_slot) == 16, "a slot is written as it stands in memory");

enum slot_state { SLOT_UNUSED, SLOT_GOOD, SLOT_BAD };

static enum slot_state slot_state(const struct mark_slot *s)
{
	static const struct mark_slot unused;

	if (memcmp(s, &unused, sizeof unused) == 0) {
		return SLOT_UNUSED;
	}
	bool good = s->magic == MARK_MAGIC && s->crc == crc32c(0, &s->taken, sizeof s->taken);
	return good ? SLOT_GOOD : SLOT_BAD;
}

static defib_err mark_read(struct spool_mark *m, struct failure *f)
{
	int bad = 0;

	for (int i = 0; i < MARK_SLOTS; i++) {
		struct mark_slot slot = {0};
		size_t got;
		defib_err err = file_read(m->fd, &slot, sizeof slot, (off_t)i * MARK_SPACING, &got, f);
		if (err) {
			return err;
		}
		enum slot_state state = slot_state(&slot);
		bad += state == SLOT_BAD;
		if (state == SLOT_GOOD && slot.taken >= m->taken) {
			m->taken = slot.taken;
			m->next_slot = (i + 1) % MARK_SLOTS;
		}
	}
	if (bad == MARK_SLOTS) {
		log_event(LOG_ERROR, "spool: the mark of taken records is damaged; they are offered again",
		          LOG_STR("file", MARK_FILE));
	}
	return DEFIB_OK;
}

/* Give the file its full size with real blocks; what is there already stays. */
static defib_err mark_reserve(struct spool_mark *m, struct failure *f)
{
	static const char zeros[MARK_SPACING * MARK_SLOTS];
	off_t size;
	defib_err err = file_size(m->fd, &size, f);

	if (err || size >= (off_t)sizeof zeros) {
		return err;
	}
	err = file_write(m->fd, zeros, sizeof zeros - (size_t)size, size, f);
	return err ? err : file_sync(m->fd, f);
}

defib_err mark_open(struct spool_mark *m, int folder, struct failure *f)
{
	*m = (struct spool_mark){.fd = -1};
	defib_err err = file_open(folder, MARK_FILE, 0, &m->fd, f);

	if (!err) {
		err = mark_reserve(m, f);
	}
	if (!err) {
		err = mark_read(m, f);
	}
	return err;
}

void mark_close(struct spool_mark *m)
{
	if (m->fd >= 0) {
		close(m->fd);
	}
	m->fd = -1;
}

defib_err mark_move(struct spool_mark *m, uint64_t taken, struct failure *f)
{
	struct mark_slot slot = {.magic = MARK_MAGIC, .taken = taken};

	assert(taken > m->taken);
	slot.crc = crc32c(0, &slot.taken, sizeof slot.taken);
	defib_err err = file_write(m->fd, &slot, sizeof slot, (off_t)m->next_slot * MARK_SPACING, f);
	if (!err) {
		err = file_sync(m->fd, f);
	}
	if (!err) { /* else the same slot again: the other one holds the last good mark */
		m->taken = taken;
		m->next_slot = (m->next_slot + 1) % MARK_SLOTS;
	}
	return err;
}
