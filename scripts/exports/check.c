/* Runs an exported model on the examples of a file, and counts outputs that have the bits of the
 * file, and bytes beside the arena that were written. examples.bin is, for each example, INPUTS
 * and OUTPUTS words: f32, little-endian. With MOST the first MOST examples. */
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
        refused += MODEL_RUN(x.f, y.f, arena) != 0;
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
