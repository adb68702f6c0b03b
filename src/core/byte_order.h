/* Files hold little-endian numbers. On a machine with the other order the bytes of each element are
 * reversed when tensors enter and leave a file; everything between has the machine's order. */
#ifndef DT__CORE_BYTE_ORDER_H
#define DT__CORE_BYTE_ORDER_H

#include <stddef.h>

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define DT__BIG_ENDIAN 1
#else
#define DT__BIG_ENDIAN 0
#endif

/* Copies `bytes` bytes, whole elements of `width` bytes, with the bytes of each in reverse. `to`
 * and `from` do not overlap. */
void dt__reverse_elements(void *to, const void *from, size_t bytes, size_t width);

#endif
