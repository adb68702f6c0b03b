/* The plain C kernels for double, and their table. The bodies are in plain_<family>.inc. */
#include "kernels/exp.h"
#include "kernels/kernels.h"

#define REAL double
#define KERNEL(name) dt__##name##__ref_f64
#define LIBM(name) name
#define EXP exp
#define EXPM1 expm1
#define TANH tanh
#define LOG log
#define ERFC erfc
#define ERF erf
#define FUSED(a, b, c) ((a) * (b) + (c)) /* fma of doubles is a call on x86, and slow */
#include "kernels/plain/plain.inc"

const dt__kernels dt__kernels_ref_f64 = {
#define DT__KERNEL(name, arguments) .name = dt__##name##__ref_f64,
#define DT__KERNEL_F32(name, result, arguments)
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32
};
