/* Random streams: Philox4x32-10 [Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"],
 * from Random123. A stream is a key (mixed from seed and purpose) and a counter, so any block can
 * be computed again, and results do not depend on the order of threads. */
#include "core/shuffle.h"
#include "core/tensor.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

/* splitmix64's finalizer: every bit of the seed affects every bit of the key. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

dt__stream dt__stream_of(uint64_t seed, dt__purpose purpose)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    return (dt__stream){ .key = mix(mix(seed + golden) + golden * ((uint64_t)purpose + 1)) };
}

void dt__philox(uint64_t key, uint64_t counter, uint32_t out[4])
{
    const philox4x32_key_t k = { { (uint32_t)key, (uint32_t)(key >> 32) } };
    const philox4x32_ctr_t c = { { (uint32_t)counter, (uint32_t)(counter >> 32), 0, 0 } };
    const philox4x32_ctr_t r = philox4x32(c, k);
    memcpy(out, r.v, sizeof r.v);
}

/* Philox itself, written so that compilers vectorize it. */
void dt__philox_run(uint64_t key, uint64_t first, uint32_t out[4][DT__PHILOX_RUN])
{
    uint32_t *a = out[0], *b = out[1], *c = out[2], *d = out[3];
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    for (int i = 0; i < DT__PHILOX_RUN; i++) {
        a[i] = (uint32_t)(first + (uint64_t)i);
        b[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c[i] = d[i] = 0;
    }
    for (int round = 0; round < 10; round++, low += PHILOX_W32_0, high += PHILOX_W32_1) {
        for (int i = 0; i < DT__PHILOX_RUN; i++) {
            const uint64_t p = (uint64_t)PHILOX_M4x32_0 * a[i], q = (uint64_t)PHILOX_M4x32_1 * c[i];
            a[i] = (uint32_t)(q >> 32) ^ b[i] ^ low;
            b[i] = (uint32_t)q;
            c[i] = (uint32_t)(p >> 32) ^ d[i] ^ high;
            d[i] = (uint32_t)p;
        }
    }
}

uint64_t dt__stream_take(dt__stream *s, uint64_t blocks)
{
    const uint64_t first = s->next;
    s->next += blocks;
    return first;
}

static uint64_t word64(dt__stream *s)
{
    uint32_t w[4];
    dt__philox(s->key, dt__stream_take(s, 1), w);
    return ((uint64_t)w[0] << 32) | w[1];
}

uint64_t dt__random_below(dt__stream *s, uint64_t n)
{
    if (n <= 1) return 0;
    uint64_t w = word64(s);
    while (!dt__is_fair(w, n)) w = word64(s);
    return w % n;
}

double dt__random_unit(dt__stream *s)
{
    const uint64_t w = word64(s);
    return dt__unit_f64((uint32_t)(w >> 32), (uint32_t)w);
}

void dt_seed(dt_ctx *ctx, uint64_t seed)
{
    if (ctx == NULL) return;
    ctx->seed = seed;
    for (int p = 0; p < DT__PURPOSES; p++) ctx->stream[p] = dt__stream_of(seed, (dt__purpose)p);
}

typedef double (*dt__draw)(uint64_t key, uint64_t counter, double a, double b);

static double draw_uniform(uint64_t key, uint64_t counter, double low, double high)
{
    uint32_t w[4];
    dt__philox(key, counter, w);
    return low + (high - low) * dt__unit_f64(w[0], w[1]);
}

/* Box-Muller transform; 1 - u is never 0. */
static double draw_normal(uint64_t key, uint64_t counter, double mean, double deviation)
{
    uint32_t w[4];
    dt__philox(key, counter, w);
    const double radius = sqrt(-2.0 * log(1.0 - dt__unit_f64(w[0], w[1])));
    return mean + deviation * radius * cos(6.283185307179586 * dt__unit_f64(w[2], w[3]));
}

/* Element k takes block k in every dtype, so f32 and f64 tensors get the same numbers. */
static dt_status fill(dt_tensor *x, dt__purpose purpose, dt__draw draw, double a, double b)
{
    dt_ctx *ctx = x->ctx;
    if (!dt__is_float(x->dtype)) {
        return dt_fail(ctx, DT_ERR_DTYPE, "random fill: must be f32 or f64, not %s",
                       dt_dtype_name(x->dtype));
    }
    if (!isfinite(a) || !isfinite(b)) {
        return dt_fail(ctx, DT_ERR_ARG, "random fill: the bounds %g, %g must be finite", a, b);
    }
    if (!dt_is_contiguous(x)) {
        return dt_fail(ctx, DT_ERR_ARG, "random fill: the tensor must be contiguous");
    }
    dt__stream *s = &ctx->stream[purpose];
    if (ctx->blank && purpose == DT__FOR_INIT) {
        dt__stream_take(s, (uint64_t)x->count);
        return DT_OK;
    }
    void *data = dt_data_mut(x);
    if (data == NULL && x->count > 0) return ctx->status;
    const uint64_t first = dt__stream_take(s, (uint64_t)x->count);
    for (int64_t k = 0; k < x->count; k++) {
        const double v = draw(s->key, first + (uint64_t)k, a, b);
        if (x->dtype == DT_F32) ((float *)data)[k] = (float)v;
        else ((double *)data)[k] = v;
    }
    return DT_OK;
}

dt_status dt__draw_uniform(dt_tensor *x, dt__purpose purpose, double low, double high)
{
    return fill(x, purpose, draw_uniform, low, high);
}

dt_status dt__draw_normal(dt_tensor *x, dt__purpose purpose, double mean, double deviation)
{
    return fill(x, purpose, draw_normal, mean, deviation);
}

dt_status dt_fill_uniform(dt_tensor *x, double low, double high)
{
    DT__NEED(dt_ctx_of(x), x);
    return dt__draw_uniform(x, DT__FOR_USER, low, high);
}

dt_status dt_fill_normal(dt_tensor *x, double mean, double deviation)
{
    DT__NEED(dt_ctx_of(x), x);
    return dt__draw_normal(x, DT__FOR_USER, mean, deviation);
}
