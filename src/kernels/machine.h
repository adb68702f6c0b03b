/* The processor, on which the bits of fp32 results depend besides the program. */
#ifndef DT__KERNELS_MACHINE_H
#define DT__KERNELS_MACHINE_H

#define DT__PROCESSOR 49

/* Writes the processor's brand string, or "unknown". Returns text. */
const char *dt__processor(char text[DT__PROCESSOR]);

#endif
