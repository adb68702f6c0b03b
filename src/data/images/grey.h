/* Grey of red, green and blue. */
#ifndef DT__DATA_GREY_H
#define DT__DATA_GREY_H

#include <stdint.h>

/* 0.299, 0.587, 0.114 [ITU-R BT.601] as integers that add up to 65536, rounded. */
static inline uint8_t dt__grey_of(const uint8_t *rgb)
{
    return (uint8_t)((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
}

#endif
