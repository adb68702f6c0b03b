/* The name of the processor. Besides the program, the bits of fp32 results depend on it. */
#ifndef DT__KERNELS_MACHINE_H
#define DT__KERNELS_MACHINE_H

#define DT__PROCESSOR 49

/* Writes the processor's brand string, or "unknown". Returns text. */
const char *dt__processor(char text[DT__PROCESSOR]);

#endif
