/* Derives llama3's scaling from the divisors x_i of the frequencies, all that a file has of it.
 * With the wavelength l_i of pair i
 *     s_i = (original_context / l_i - low) / (high - low), cut to 0 ... 1
 *     1 / x_i = (1 - s_i) / factor + s_i
 * A file has the divisors alone. The factor is the largest one, and s is linear in 1 / l_i where it
 * is not cut, so a slope and an offset give the same divisors; which context and bounds they come
 * from is not in the file, and does not matter: low_freq_factor is chosen near 1. */
#include "io/gguf/gguf_keys.h"

#include <math.h>
#include <string.h>

#define CLOSE 1e-4     /* relative error of a divisor: other programs compute in f32 */
#define SAME 1e-5      /* relative error at which the bounds of Llama 3 are used */
#define MOST_BOUND 1e6 /* the limit of family llama */

/* The inverse wavelengths, and s before clamping where it can be computed from x. */
typedef struct divisors {
    const dt__gguf_model *g;
    const unsigned char *data;
    int64_t n;
} divisors;

static double at(const divisors *d, int64_t i)
{
    float x;
    memcpy(&x, d->data + (size_t)i * sizeof x, sizeof x);
    return (double)x;
}

static double inverse_length(const divisors *d, int64_t i)
{
    const double turn = 6.283185307179586476925;
    return pow(d->g->o.theta, -2.0 * (double)i / (double)d->g->o.head_width) / turn;
}

static double share(const divisors *d, int64_t i, double factor)
{
    return (1 / at(d, i) - 1 / factor) / (1 - 1 / factor);
}

static bool is_close(const divisors *d, double most)
{
    for (int64_t i = 0; i < d->n; i++) {
        if (!(fabs(at(d, i) / dt__gguf_rope_factor(d->g, i) - 1) < most)) return false;
    }
    return true;
}

/* The slope of s in 1 / l between two pairs. */
static double slope_of(const divisors *d, int64_t i, int64_t j, double s_i, double s_j)
{
    return (s_i - s_j) / (inverse_length(d, i) - inverse_length(d, j));
}

/* Finds the slope of s that fits all divisors, and a pair through which the line goes (*through,
 * with its *s). Pairs before `first` are not divided; those from `end` on are divided by the full
 * factor. */
static double find_slope(const divisors *d, double factor, int64_t *through, double *s)
{
    int64_t first = 0, end;
    while (first < d->n && at(d, first) <= 1) first++;
    for (end = first; end < d->n && at(d, end) < factor;) end++;
    *through = first;
    *s = first < d->n ? share(d, first, factor) : 1;
    if (end - first > 1) return slope_of(d, first, end - 1, *s, share(d, end - 1, factor));
    const double before = first > 0 ? slope_of(d, first - 1, first, 1, *s) : 0;
    const double after = end > first && end < d->n ? slope_of(d, first, end, *s, 0) : 0;
    return before > 0 || after > 0 ? fmax(before, after) : 1 / inverse_length(d, first);
}

/* Sets the options from the line; false: no line fits the divisors. */
static bool fit(const divisors *d, dt_rope_options *o)
{
    int64_t through;
    double s;
    const double a = find_slope(d, o->factor, &through, &s);
    /* the last pair is divided by the full factor */
    const double least = a * inverse_length(d, d->n - 1);
    const double b = fmax(a * inverse_length(d, through) - s, least);
    if (!(a > 0 && b > 0 && isfinite(a / b))) return false;
    const double context = fmin(fmax(round(a / b), 1), 1 << 30);
    o->original_context = (int64_t)context;
    o->low_freq_factor = b / a * context;
    o->high_freq_factor = (b + 1) / a * context;
    return o->low_freq_factor >= 1 / MOST_BOUND && o->low_freq_factor < o->high_freq_factor &&
           o->high_freq_factor <= MOST_BOUND;
}

dt_status dt__gguf_read_divisors(const dt__gguf_file *raw, dt__gguf_model *g, const dt__gguf_raw *t)
{
    dt_rope_options *o = &g->o.rope;
    const divisors d = { g, t->data, g->o.head_width / 2 };
    if (t->type->id != DT__GGUF_F32 || t->count != d.n) {
        return dt__gguf_fail(raw, "tensor 'rope_freqs.weight' must be F32[%lld]", (long long)d.n);
    }
    *o = (dt_rope_options){ DT_ROPE_LLAMA3, 1, 1, 4, 8192 };
    for (int64_t i = 0; i < d.n; i++) {
        const double x = at(&d, i);
        if (!(x >= 1 && x <= 1e6)) {
            return dt__gguf_fail(raw, "tensor 'rope_freqs.weight': element %lld is %g",
                                 (long long)i, x);
        }
        o->factor = fmax(o->factor, x);
    }
    for (; o->original_context > 16;
         o->original_context /= 2) { /* the bounds of all Llama 3 models */
        if (is_close(&d, SAME)) return DT_OK;
    }
    if (fit(&d, o) && is_close(&d, CLOSE)) return DT_OK;
    return dt__gguf_refuse(raw, "the divisors of rope_freqs.weight do not follow the formula of "
                                "Llama 3's scaling");
}
