/* Measures an inference of an exported model: bytes of the arena, bytes of the stack, and time by
 * host_clock: nanoseconds, or instructions under `qemu -icount shift=0`; the least of runs that
 * take SPEND together. For a language model it is the mean of the tokens of a text as long as its
 * context, each with its logits. `loop` is the time of a loop of 3,000,000 instructions. */
#include "host.h"
#include "exported.h"
#include "report.h"

enum { EDGE = 64, CANARY = 0xA5, RUNS = 3 };

static union {
    uint64_t align[2];
    uint8_t byte[ARENA_BYTES + EDGE];
} arena;

#if defined(LANGUAGE)
enum { INFERENCES = CONTEXT };
static float y[VOCAB];

static void prepare(void) {}

static int infer(void)
{
    int status = 0;
    MODEL_RESET(arena.byte);
    for (int i = 0; i < CONTEXT; i++) status |= MODEL_NEXT(arena.byte, i % VOCAB, y);
    return status;
}
#else
enum { INFERENCES = 1 };
#ifndef ELEMENT
#define ELEMENT float
#endif
static ELEMENT x[INPUTS], y[OUTPUTS];

static void prepare(void)
{
    int file = host_open("examples.bin");
    if (file >= 0) host_read(file, x, sizeof x); /* targets of this program are little-endian */
}

static int infer(void) { return MODEL_RUN(x, y, arena.byte); }
#endif

static uint64_t known_loop(void)
{
    uint64_t begin = host_clock();
#if defined(__ARM_ARCH) && !defined(__aarch64__)
    uint32_t turns = 1000000;
    __asm volatile("1: nop\n subs %0, #1\n bne 1b" : "+l"(turns) : : "cc");
#endif
    return host_clock() - begin;
}

static unsigned used_arena(void)
{
    unsigned used = sizeof arena.byte;
    while (used > 0 && arena.byte[used - 1] == CANARY) used--;
    return used;
}

int main(void)
{
    prepare();
    for (unsigned i = 0; i < sizeof arena.byte; i++) arena.byte[i] = CANARY;
    host_paint_stack();
    int status = infer();
    unsigned stack = (unsigned)host_used_stack();

    print_line("status", (unsigned)status);
    print_line("arena", used_arena());
    print_line("stack", stack);
    print_line("loop", known_loop());
    uint64_t least = UINT64_MAX, all = 0;
    for (int i = 0; i < RUNS || all <= SPEND; i++) {
        uint64_t begin = host_clock();
        infer();
        uint64_t took = host_clock() - begin;
        if (took < least) least = took;
        all += took;
    }
    print_line("time", least / INFERENCES);
    return status;
}
