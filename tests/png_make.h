/* Makes PNG files by hand, of every colour type and depth, so that the reader is tested with files
 * that libpng did not write. */
#ifndef PNG_MAKE_H
#define PNG_MAKE_H

#include <stddef.h>
#include <stdint.h>

enum { PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4, PNG_RGBA = 6 };

#define PNG_MAKE_MOST 65536 /* bytes of a file made here, at most */

typedef struct png_make_options {
    int type, depth;
    int width, height;
    int interlaced;
    int seed;           /* of the samples */
    int palette;        /* entries; 0: 2^depth */
    int claimed_height; /* in the header; 0: height */
} png_make_options;

/* Sample c of pixel (x, y) as the file has it. */
int png_make_sample(const png_make_options *o, int x, int y, int c);

/* Entry i of the palette. */
void png_make_entry(int i, uint8_t rgb[3]);

/* The whole file; returns its size. */
size_t png_make(const png_make_options *o, uint8_t to[PNG_MAKE_MOST]);

/* Appends a chunk with its checksum; returns the size of the file. */
size_t png_make_chunk(uint8_t *file, size_t used, const char *name, const void *data, size_t size);

/* Sets the checksums of all chunks that lie in the file. */
void png_make_sums(uint8_t *file, size_t size);

#endif
