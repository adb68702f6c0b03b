/* What the bits of fp32 results depend on beside the program: processor and OpenBLAS core. */
#ifndef DT__KERNELS_MACHINE_H
#define DT__KERNELS_MACHINE_H

#define DT__PROCESSOR 49

/* The processor's own name, "unknown" where it cannot be asked. Returns text. */
const char *dt__processor(char text[DT__PROCESSOR]);
/* The core that OpenBLAS chose its kernels for. */
const char *dt__blas_core(void);

#endif
