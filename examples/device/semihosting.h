/* Text and an exit status through a debugger or qemu (Arm: "Semihosting for AArch32 and
 * AArch64"). On a board without a debugger the first call stops in a fault: use a UART there. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

void semihosting_print(const char *text);
void semihosting_exit(int status);

#endif
