/* A JPEG file; the first byte as of target png. */
#include "fuzz.h"

#include "target_image.h"

#include <stdio.h>

#include <jpeglib.h>

static void run(const uint8_t *data, size_t n)
{
    if (n > 0) fuzz_image(fuzz_file("image", data + 1, n - 1), data[0]);
}

static void seed(const fuzz_seeds *s, const char *name, int components, bool progressive)
{
    struct jpeg_compress_struct e;
    struct jpeg_error_mgr errors;
    unsigned char *file = NULL;
    unsigned long n = 0;
    uint8_t row[9 * 3];
    e.err = jpeg_std_error(&errors);
    jpeg_create_compress(&e);
    jpeg_mem_dest(&e, &file, &n);
    e.image_width = 9;
    e.image_height = 10;
    e.input_components = components;
    e.in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&e);
    jpeg_set_quality(&e, 60, TRUE);
    if (progressive) jpeg_simple_progression(&e);
    jpeg_start_compress(&e, TRUE);
    for (int y = 0; y < 10; y++) {
        JSAMPROW one = row;
        for (int i = 0; i < 9 * components; i++) row[i] = (uint8_t)(20 * y + 9 * i);
        jpeg_write_scanlines(&e, &one, 1);
    }
    jpeg_finish_compress(&e);
    jpeg_destroy_compress(&e);
    uint8_t *whole = malloc(n + 1);
    FUZZ_NEEDS(whole != NULL, "memory");
    whole[0] = 0;
    for (unsigned long i = 0; i < n; i++) whole[i + 1] = file[i];
    fuzz_seed(s, name, whole, n + 1);
    free(whole);
    free(file);
}

static void seeds(const fuzz_seeds *s)
{
    seed(s, "grey", 1, false);
    seed(s, "colour", 3, false);
    seed(s, "progressive", 3, true);
}

const fuzz_target fuzz_target_jpeg = { "jpeg", "a JPEG file", run, seeds };
