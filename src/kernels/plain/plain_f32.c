/* The plain C kernels for float, and their table. The bodies are in plain_<family>.inc. */
#include "kernels/exp.h"
#include "kernels/kernels.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "floats are computed in float: gcc may need -fexcess-precision=fast");

#define REAL float
#define KERNEL(name) dt__##name##__ref_f32
#define LIBM(name) name##f
#define EXP dt__exp_f32
#define EXPM1 dt__expm1_f32
#define TANH dt__tanh_f32
#define LOG dt__log_f32
#define ERFC dt__erfc_f32
#define ERF dt__erf_f32
#define FUSED(a, b, c) fmaf(a, b, c)
#include "kernels/plain/plain.inc"

const dt__kernels dt__kernels_ref_f32 = {
#define DT__KERNEL(name, arguments) .name = dt__##name##__ref_f32,
#define DT__KERNEL_F32(name, result, arguments) .name = dt__##name##__ref,
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32
};
