/* A Cortex-M: vectors, start, and semihosting (Arm: "Semihosting for AArch32 and AArch64").
 *
 * The clock is SysTick, which counts cycles of TICK nanoseconds. With `qemu -icount shift=0` an
 * instruction takes one nanosecond of virtual time, so that it counts instructions, exact to a
 * tick. */
#include "host.h"

#ifndef TICK
#define TICK 40 /* a processor clock of 25 MHz: mps2-an386 */
#endif

extern uint32_t data_begin, data_end, data_image, bss_begin, bss_end, stack_top;

enum { OPEN = 1, WRITE0 = 4, READ = 6, EXIT = 0x18 };
enum { STOPPED = 0x20026, FAILED = 0x20023 };
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REGISTER(0xE000E010)
#define SYST_RVR REGISTER(0xE000E014)
#define SYST_CVR REGISTER(0xE000E018)
#define CPACR REGISTER(0xE000ED88)

static int32_t call(int32_t operation, const void *argument)
{
    register int32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void host_print(const char *text) { call(WRITE0, text); }

int host_open(const char *name)
{
    uint32_t length = 0;
    while (name[length] != 0) length++;
    const uint32_t block[3] = { (uint32_t)name, 1 /* "rb" */, length };
    return (int)call(OPEN, block);
}

size_t host_read(int file, void *to, size_t bytes)
{
    const uint32_t block[3] = { (uint32_t)file, (uint32_t)to, (uint32_t)bytes };
    return bytes - (size_t)call(READ, block); /* it says how many are missing */
}

static volatile uint32_t wraps;

static void tick(void) { wraps++; }

uint64_t host_clock(void)
{
    if ((SYST_CSR & 1u) == 0) {
        SYST_RVR = 0xFFFFFFu;
        SYST_CVR = 0;
        SYST_CSR = 7u; /* processor clock, interrupt, on */
        while (SYST_CVR == 0) {
        } /* the first tick loads it */
    }
    uint32_t before, now;
    do {
        before = wraps;
        now = 0xFFFFFFu - SYST_CVR;
    } while (before != wraps);
    return ((uint64_t)before * 0x1000000u + now) * TICK;
}

enum { PATTERN = 0x5AA5C33C };

void host_paint_stack(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0) - 64;
    for (volatile uint32_t *p = &bss_end; (uintptr_t)p < here; p++) *p = PATTERN;
}

size_t host_used_stack(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile uint32_t *p = &bss_end;
    while ((uintptr_t)p < here && *p == PATTERN) p++;
    return (size_t)(here - (uintptr_t)p);
}

static void leave(int status) { call(EXIT, (const void *)(status != 0 ? FAILED : STOPPED)); }

static void fault(void)
{
    host_print("fault\n");
    leave(1);
}

void start(void)
{
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20;
    __asm volatile("dsb\n isb");
#endif
    uint32_t *from = &data_image;
    for (uint32_t *to = &data_begin; to < &data_end; to++) *to = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end; to++) *to = 0;
    leave(main());
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, start, fault, fault, fault, fault, fault, [15] = tick,
};
