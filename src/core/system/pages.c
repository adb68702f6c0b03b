#define _DEFAULT_SOURCE /* madvise */
#include "core/system/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void dt__pages_give_back(const void *at, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)at + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)at + n) / page * page;
    if (end > from) madvise((void *)from, end - from, MADV_DONTNEED);
}
