/* Runs the self-test of an exported model. */
#include "exported.h"
#include "host.h"
#include "report.h"

static union {
    uint64_t align[2];
    uint8_t byte[ARENA_BYTES];
} arena;

int main(void)
{
    int wrong = MODEL_SELFTEST(arena.byte);
    print_line("selftest", (unsigned)wrong);
    return wrong != 0;
}
