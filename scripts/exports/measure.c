/* What an inference of an exported model takes: bytes of the arena, bytes of the stack, and time
 * by host_clock: nanoseconds, or instructions under `qemu -icount shift=0`; the least of runs that
 * take SPEND together. `loop` is what the clock says of a loop of 3,000,000 instructions. */
#include "host.h"
#include "exported.h"
#include "report.h"

enum { EDGE = 64, CANARY = 0xA5, RUNS = 3 };

static float x[INPUTS], y[OUTPUTS];
static union {
    uint64_t align[2];
    uint8_t byte[ARENA_BYTES + EDGE];
} arena;

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
    int file = host_open("examples.bin");
    if (file >= 0) host_read(file, x, sizeof x); /* targets of this program are little-endian */
    for (unsigned i = 0; i < sizeof arena.byte; i++) arena.byte[i] = CANARY;
    host_paint_stack();
    int status = MODEL_RUN(x, y, arena.byte);
    unsigned stack = (unsigned)host_used_stack();

    print_line("status", (unsigned)status);
    print_line("arena", used_arena());
    print_line("stack", stack);
    print_line("loop", known_loop());
    uint64_t least = UINT64_MAX, all = 0;
    for (int i = 0; i < RUNS || all <= SPEND; i++) {
        uint64_t begin = host_clock();
        MODEL_RUN(x, y, arena.byte);
        uint64_t took = host_clock() - begin;
        if (took < least) least = took;
        all += took;
    }
    print_line("time", least);
    return status;
}
