/* Debian's libgcc unwinds with glibc's _dl_find_object. With another C library this replaces it: it
 * finds the unwind tables of the library or program that contains an address. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <features.h>

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __GLIBC__

/* As glibc 2.35 defines it for 64 bits. */
struct dl_find_object {
    unsigned long long flags;
    void *begin, *end;
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[7];
};

typedef struct search {
    uintptr_t address;
    struct dl_find_object *found;
} search;

static int look(struct dl_phdr_info *of, size_t size, void *user)
{
    search *s = user;
    bool inside = false;
    (void)size;
    s->found->eh_frame = NULL;
    for (int i = 0; i < of->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &of->dlpi_phdr[i];
        const uintptr_t at = of->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_GNU_EH_FRAME) s->found->eh_frame = (void *)at;
        if (p->p_type != PT_LOAD || s->address < at || s->address - at >= p->p_memsz) continue;
        s->found->begin = (void *)at;
        s->found->end = (void *)(at + p->p_memsz);
        inside = true;
    }
    return inside && s->found->eh_frame != NULL;
}

/* 0: found */
int _dl_find_object(void *address, struct dl_find_object *found);
int _dl_find_object(void *address, struct dl_find_object *found)
{
    *found = (struct dl_find_object){ .flags = 0 };
    search s = { (uintptr_t)address, found };
    return dl_iterate_phdr(look, &s) == 1 ? 0 : -1;
}
#endif
