/* Reads the orientation from EXIF data, a TIFF file [Adobe, "TIFF Revision 6.0"]: "II"
 * (little-endian) or "MM", 42, the offset of a directory; its number of entries, then tag, type,
 * count, value of each. */
#include "data/images/orientation.h"

#include <string.h>

#define ORIENTATION 0x0112
#define SHORT 3
#define ENTRY 12

typedef struct tiff {
    const uint8_t *v;
    size_t n;
    bool big_endian;
} tiff;

/* The number of 2 or 4 bytes at `at`, which is inside. */
static uint32_t number_at(const tiff *t, size_t at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value = value << 8 | t->v[at + (size_t)(t->big_endian ? i : bytes - 1 - i)];
    }
    return value;
}

int dt__orientation_read(const uint8_t *exif, size_t n)
{
    const tiff t = { exif, n, n > 0 && exif[0] == 'M' };
    if (n < 8 || (memcmp(exif, "II*\0", 4) != 0 && memcmp(exif, "MM\0*", 4) != 0)) return 0;
    const size_t directory = number_at(&t, 4, 4);
    if (directory > n - 2) return 0;
    const size_t entries = number_at(&t, directory, 2);
    if (entries > (n - 2 - directory) / ENTRY) return 0;
    for (size_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + ENTRY * i;
        if (number_at(&t, at, 2) != ORIENTATION) continue;
        const uint32_t value = number_at(&t, at + 8, 2);
        const bool known = number_at(&t, at + 2, 2) == SHORT && number_at(&t, at + 4, 4) == 1;
        return known && value >= 1 && value <= DT__ORIENTATIONS ? (int)value : 0;
    }
    return DT__UPRIGHT;
}

/* Whether rows of the file are columns of the image, and whether the file's rows and columns are
 * reversed. */
static const struct {
    bool turned, rows, columns;
} forms[1 + DT__ORIENTATIONS] = {
    { false, false, false }, { false, false, false }, { false, false, true },
    { false, true, true },   { false, true, false },  { true, false, false },
    { true, true, false },   { true, true, true },    { true, false, true },
};

void dt__orientation_size(int orientation, int64_t *height, int64_t *width)
{
    const int64_t h = *height;
    if (!forms[orientation].turned) return;
    *height = *width;
    *width = h;
}

dt__turn dt__turn_of(int orientation, int64_t height, int64_t width)
{
    const bool turned = forms[orientation].turned;
    dt__turn t = { 0, turned ? 1 : width, turned ? height : 1 };
    if (forms[orientation].rows) {
        t.start += (height - 1) * t.row;
        t.row = -t.row;
    }
    if (forms[orientation].columns) {
        t.start += (width - 1) * t.column;
        t.column = -t.column;
    }
    return t;
}
