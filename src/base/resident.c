/* SPDX-License-Identifier: Apache-2.0 */
/* resident.c: see resident.h. */
#include "base/resident.h"

#include "base/text.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* Code is never written to, so that dropping its pages loses nothing. */
static int drop_code(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	(void)size;
	(void)ctx;
	if (text_starts(info->dlpi_name, "linux-vdso"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || (p->p_flags & PF_W))
			continue;
		uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t to = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);
		if (to > from)
			(void)madvise((void *)from, to - from, MADV_DONTNEED);
	}
	return 0;
}

void resident_trim(void)
{
	(void)malloc_trim(0);
	(void)dl_iterate_phdr(drop_code, NULL);
}
