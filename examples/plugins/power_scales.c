/* power_scales.c: a plugin with a quantization scheme: scales are powers of two, so that a device
 * multiplies by them with a shift [Jain et al. 2019, "Trained quantization thresholds"]:
 *     scale = 2^ceil(log2(max(-lo, hi) / qmax))
 * the least power of two with which no value is clipped.
 *
 *     cc -shared -fPIC -O2 -I include examples/plugins/power_scales.c -o power_scales.so
 *     detent train examples/plugins/power_scales.yaml run.plugins=[./power_scales.so] */
#include <detent/experimental/plugin.h>

#include <math.h>

static void scale(int64_t n, const float *lo, const float *hi, int qmin, int qmax, float *scale)
{
    (void)qmin;
    for (int64_t i = 0; i < n; i++) {
        const float largest = fmaxf(-lo[i], hi[i]);
        int exponent = -126; /* of zeros: the least normal number */
        if (largest > 0) {
            const float part = frexpf(largest / (float)qmax, &exponent); /* part * 2^exponent */
            if (part <= 0.5f) exponent--;                                /* a power of two itself */
        }
        scale[i] = ldexpf(1, exponent < -126 ? -126 : exponent);
    }
}

static const dt_own_scheme power_scales = { .name = "power_scales",
                                            .text = "scales that are powers of two",
                                            .scale = scale };

static dt_status start(dt_ctx *ctx) { return dt_scheme_register(ctx, &power_scales); }

DT_PLUGIN("power_scales", "a quantization scheme whose scales are powers of two", start)
