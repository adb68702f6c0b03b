/* The bytes of elements in reverse. */
#include "core/text/byte_order.h"

void dt__reverse_elements(void *to, const void *from, size_t bytes, size_t width)
{
    const unsigned char *in = from;
    unsigned char *out = to;
    for (size_t i = 0; i < bytes; i++) out[i] = in[i + width - 1 - 2 * (i % width)];
}
