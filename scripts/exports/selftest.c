/* Runs the self-test of an exported model, and counts bytes beside its memory that were written. */
#include "exported.h"
#include "host.h"
#include "report.h"

enum { EDGE = 64, CANARY = 0xA5 };

static union {
    uint64_t align[2];
    uint8_t byte[EDGE + ARENA_BYTES + EDGE];
} memory;

int main(void)
{
    for (unsigned i = 0; i < sizeof memory.byte; i++) memory.byte[i] = CANARY;
    unsigned wrong = (unsigned)MODEL_SELFTEST(memory.byte + EDGE), damaged = 0;
    for (unsigned i = 0; i < EDGE; i++) {
        damaged += memory.byte[i] != CANARY;
        damaged += memory.byte[EDGE + ARENA_BYTES + i] != CANARY;
    }
    print_line("selftest", wrong);
    print_line("damaged", damaged);
    return wrong + damaged != 0;
}
