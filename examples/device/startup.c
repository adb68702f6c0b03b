/* From reset to main: the FPU on, .data copied, .bss cleared. */
#include "semihosting.h"

#include <stdint.h>

extern uint32_t data_begin, data_end, data_image, bss_begin, bss_end, stack_top;

int main(void);
void reset(void);

static void fault(void)
{
    semihosting_print("fault\n");
    semihosting_exit(1);
}

void reset(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to the FPU */
    __asm__ volatile("dsb\n\tisb");
#endif
    const uint32_t *from = &data_image;
    for (uint32_t *to = &data_begin; to < &data_end; to++) *to = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end; to++) *to = 0;
    semihosting_exit(main());
}

typedef union vector {
    const uint32_t *stack;
    void (*handler)(void);
} vector;

/* The stack, reset, NMI and the faults. A program with interrupts has theirs behind these. */
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    { .stack = &stack_top }, { .handler = reset }, { .handler = fault }, { .handler = fault },
    { .handler = fault },    { .handler = fault }, { .handler = fault },
};
