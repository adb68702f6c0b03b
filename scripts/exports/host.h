/* The platform functions of a check of an exported model: host_stdio.c for an operating system with
 * a C library, host_cortex_m.c for a Cortex-M with a debugger (semihosting), host_riscv.c for
 * system calls of Linux without a C library. The last two contain the start of the program. */
#ifndef HOST_H
#define HOST_H
#include <stddef.h>
#include <stdint.h>

void host_print(const char *text);
int host_open(const char *name); /* for reading; below 0: there is no such file */
size_t host_read(int file, void *to, size_t bytes); /* how many there were */

/* Nanoseconds of processor time. Under `qemu -icount shift=0`: instructions. */
uint64_t host_clock(void);

/* Fills the free stack with a pattern; then says how many bytes below the caller's frame were
 * written since. 0 where the free stack cannot be painted. */
void host_paint_stack(void);
size_t host_used_stack(void);

int main(void);
#endif
