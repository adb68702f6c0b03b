/* Kernels that do nothing. A training step with them shows the time that detent spends outside its
 * kernels: dispatch, tape, memory, hooks, the optimizer's loop over parameters. No control flow
 * depends on the results that they leave out, except on ranges, from which scales are computed:
 * these are set. Counts of clipped codes are 0. */
#include "bench/nothing.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define RETURN_void
#define RETURN_int64_t return 0;

#define DT__KERNEL(name, arguments)                                                                \
    static void name##_nothing arguments {}
#define DT__KERNEL_F32(name, result, arguments)                                                    \
    static result name##_nothing arguments { RETURN_##result }
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32

static int64_t some_range(int64_t n, int64_t group, const float *x, float *lo, float *hi)
{
    for (int64_t g = 0; g * group < n; g++) {
        lo[g] = -1;
        hi[g] = 1;
    }
    return -1; /* all finite */
}

/* Later initializers replace earlier ones. */
#if defined __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

const dt__kernels dt__kernels_nothing = {
#define DT__KERNEL(name, arguments) .name = name##_nothing,
#define DT__KERNEL_F32(name, result, arguments) .name = name##_nothing,
#include "kernels/kernels.inc"
#undef DT__KERNEL
#undef DT__KERNEL_F32
    .range = some_range,
};
