/* Runs an exported model on the examples of a file, and counts outputs that have the bits of the
 * file, and bytes that were written outside of the arena. examples.bin is, for each example, INPUTS
 * and OUTPUTS words: f32, little-endian. With MOST only the first MOST examples.
 *
 * A model of integers (ELEMENT) gets the codes of the inputs, images with channels last, and the
 * values of its codes are compared. */
#include "host.h"
#include "exported.h"
#include "report.h"

#ifndef MOST
#define MOST 1000000
#endif
enum { EDGE = 64, CANARY = 0xA5 };

static uint32_t x_words[INPUTS], y_words[OUTPUTS];
static union {
    float f[INPUTS];
    uint32_t u[INPUTS];
} x;
static union {
    float f[OUTPUTS];
    uint32_t u[OUTPUTS];
} y;
static union {
    uint64_t align[2];
    uint8_t byte[EDGE + ARENA_BYTES + EDGE];
} memory;

#if defined(ELEMENT)
static ELEMENT x_codes[INPUTS], y_codes[OUTPUTS];

/* clamp(round(v / scale) + zero, -128, 127), halves away from zero. */
static ELEMENT code_of(float v)
{
    float q = v / INPUT_SCALE;
    if (q > 1000.0f) q = 1000.0f;
    if (q < -1000.0f) q = -1000.0f;
    int32_t n = (int32_t)q;
    float rest = q - (float)n;
    n += (rest >= 0.5f) - (rest <= -0.5f) + INPUT_ZERO;
    return (ELEMENT)(n < -128 ? -128 : n > 127 ? 127 : n);
}

static int run_model(void *arena)
{
    for (unsigned i = 0; i < INPUTS; i++) {
        unsigned pixels = INPUTS / CHANNELS, channel = i / pixels;
        x_codes[i % pixels * CHANNELS + channel] = code_of(x.f[i]);
    }
    int status = MODEL_RUN(x_codes, y_codes, arena);
    for (unsigned i = 0; i < OUTPUTS; i++) {
        unsigned pixels = OUTPUTS / OUTPUT_CHANNELS, channel = i / pixels;
        int code = y_codes[i % pixels * OUTPUT_CHANNELS + channel];
        y.f[i] = (float)(code - OUTPUT_ZERO) * OUTPUT_SCALE;
    }
    return status;
}
#else
static int run_model(void *arena) { return MODEL_RUN(x.f, y.f, arena); }
#endif

static uint32_t little(const uint32_t *word)
{
    const uint8_t *b = (const uint8_t *)word;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static unsigned damaged_canaries(void)
{
    unsigned damaged = 0;
    for (unsigned i = 0; i < EDGE; i++) {
        damaged += memory.byte[i] != CANARY;
        damaged += memory.byte[EDGE + ARENA_BYTES + i] != CANARY;
    }
    return damaged;
}

int main(void)
{
    for (unsigned i = 0; i < sizeof memory.byte; i++) memory.byte[i] = CANARY;
    void *arena = memory.byte + EDGE;
    unsigned selftest = (unsigned)MODEL_SELFTEST(arena);
    unsigned equal = 0, all = 0, refused = 0;
    int file = host_open("examples.bin");
    if (file < 0) {
        host_print("no file examples.bin\n");
        return 1;
    }
    for (int k = 0; k < MOST && host_read(file, x_words, sizeof x_words) == sizeof x_words &&
                    host_read(file, y_words, sizeof y_words) == sizeof y_words;
         k++) {
        for (unsigned i = 0; i < INPUTS; i++) x.u[i] = little(x_words + i);
        for (unsigned i = 0; i < OUTPUTS; i++) y.u[i] = 0;
#if defined(STANDARDIZE)
        MODEL_STANDARDIZE(x.f, x.f);
#endif
        refused += run_model(arena) != 0;
        for (unsigned i = 0; i < OUTPUTS; i++) equal += y.u[i] == little(y_words + i);
        all += OUTPUTS;
    }
    unsigned damaged = damaged_canaries();
    print_line("equal", equal);
    print_line("of", all);
    print_line("refused", refused);
    print_line("selftest", selftest);
    print_line("damaged", damaged);
    return equal != all || all == 0 || refused + selftest + damaged != 0;
}
