/* Files hold little-endian numbers. On a machine with the other order the bytes of each element are
 * reversed when tensors enter and leave a file; everything between has the machine's order. */
#ifndef DT__CORE_BYTE_ORDER_H
#define DT__CORE_BYTE_ORDER_H

#include <stddef.h>
#include <string.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define DT__BIG_ENDIAN 1
#else
#define DT__BIG_ENDIAN 0
#endif

/* Copies `bytes` bytes: whole elements of `width` bytes, each with its bytes reversed. `to` and
 * `from` do not overlap. */
void dt__reverse_elements(void *to, const void *from, size_t bytes, size_t width);

/* Copies one number of `bytes` bytes from a file into memory, or back. */
static inline void dt__copy_little(void *to, const void *from, size_t bytes)
{
    if (DT__BIG_ENDIAN) dt__reverse_elements(to, from, bytes, bytes);
    else memcpy(to, from, bytes);
}

#endif
