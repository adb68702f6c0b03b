/* Orientation of a photo's pixels in its file: the tag Orientation of EXIF data [CIPA DC-008,
 * "Exif", 4.6.5], which cameras write instead of rotating the pixels. */
#ifndef DT__DATA_ORIENTATION_H
#define DT__DATA_ORIENTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT__UPRIGHT 1
#define DT__ORIENTATIONS 8

/* The orientation, 1 to 8, from n bytes of EXIF data, without "Exif" in front; 1 if the tag is
 * absent. 0: damaged data, or another number. */
int dt__orientation_read(const uint8_t *exif, size_t n);

/* The extents of an upright image from those in its file. */
void dt__orientation_size(int orientation, int64_t *height, int64_t *width);

/* Pixel (y, x) of the file is pixel start + y row + x column of the upright image. */
typedef struct dt__turn {
    int64_t start, row, column;
} dt__turn;

dt__turn dt__turn_of(int orientation, int64_t height, int64_t width);

#endif
