/* A PNG file, whose checksums are corrected so that the code behind them is reached; the first byte
 * says how many channels are wanted, and whether the image is resized. */
#include "fuzz.h"

#include "data/images/image_file.h"
#include "png_make.h"
#include "target_image.h"

#include <stdio.h>
#include <string.h>

void fuzz_image(const char *path, unsigned how)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt__image_file f;
    const int64_t channels = how & 1 ? 1 : 3;
    dt_status s = dt__image_open(ctx, path, &f);
    if (s == DT_OK && f.height * f.width <= 1 << 18) {
        const bool sized = (how & 2) != 0;
        const size_t n = (size_t)(channels * (sized ? 5 * 7 : f.height * f.width));
        uint8_t *to = malloc(n);
        FUZZ_NEEDS(to != NULL, "memory");
        s = sized ? dt__image_read_sized(ctx, &f, channels, 5, 7, to)
                  : dt__image_read(&f, channels, to);
        if (s == DT_OK) fuzz_touch(to, n);
        free(to);
    }
    if (s != DT_OK) fuzz_refused(ctx, false);
    dt__image_close(&f);
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n)
{
    if (n < 2) return;
    uint8_t *file = malloc(n - 1);
    FUZZ_NEEDS(file != NULL, "memory");
    memcpy(file, data + 1, n - 1);
    png_make_sums(file, n - 1);
    const char *path = fuzz_file("image", file, n - 1);
    free(file);
    fuzz_image(path, data[0]);
}

static void seeds(const fuzz_seeds *s)
{
    static const struct {
        int type, depth;
    } kinds[] = { { PNG_GREY, 1 }, { PNG_GREY, 8 },    { PNG_GREY, 16 },   { PNG_RGB, 8 },
                  { PNG_RGB, 16 }, { PNG_PALETTE, 2 }, { PNG_PALETTE, 8 }, { PNG_GREY_ALPHA, 8 },
                  { PNG_RGBA, 8 }, { PNG_RGBA, 16 } };
    static uint8_t file[1 + PNG_MAKE_MOST];
    for (int i = 0; i < 2 * DT__COUNT_OF(kinds); i++) {
        const png_make_options o = { .type = kinds[i / 2].type,
                                     .depth = kinds[i / 2].depth,
                                     .width = 5,
                                     .height = 4,
                                     .interlaced = i % 2,
                                     .palette = kinds[i / 2].depth > 4 ? 7 : 0 };
        char name[32];
        snprintf(name, sizeof name, "%d-%d-%d", o.type, o.depth, o.interlaced);
        file[0] = (uint8_t)(i % 4);
        fuzz_seed(s, name, file, 1 + png_make(&o, file + 1));
    }
}

const fuzz_target fuzz_target_png = { "png", "a PNG file", run, seeds };
