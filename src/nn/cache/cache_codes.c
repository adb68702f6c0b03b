/* The codes of an int8 key-value cache. Of each token and head
 *     scale = max(max |x| / 127, 2^-23)       code = rne(x (1 / scale)), in -127 ... 127
 * (docs/numerics.md §2). */
#include "nn/cache/cache.h"

#include "core/threads.h"
#include "kernels/kernels.h"

#define MOST_CODE 127
#define LEAST_SCALE 0x1p-23f
#define PIECE 256 /* elements that are encoded at a time */

typedef struct work {
    const dt__kernels *kernels;
    const dt_tensor *x;
    const dt__cache_codes *to;
    _Atomic int64_t *bad; /* the first row that is not finite, or the number of rows */
} work;

/* The largest magnitude of a row of n elements, `step` apart; -1: not finite. */
static float extent_of(const dt__kernels *k, int64_t n, const float *x, int64_t step)
{
    float most = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        float piece[PIECE], lo, hi;
        const int64_t m = dt__min_i64(PIECE, n - at);
        for (int64_t i = 0; i < m; i++) piece[i] = x[(at + i) * step];
        if (k->range(m, m, piece, &lo, &hi) >= 0) return -1;
        most = -lo > most ? -lo : most;
        most = hi > most ? hi : most;
    }
    return most;
}

static void encode_row(const dt__kernels *k, int64_t n, const float *x, int64_t step, float scale,
                       int8_t *y, int64_t gap)
{
    for (int64_t at = 0; at < n; at += PIECE) {
        float piece[PIECE];
        int8_t codes[PIECE];
        const int64_t m = dt__min_i64(PIECE, n - at);
        const dt__code_row row = {
            .n = m, .group = m, .scale = &scale, .qmin = -MOST_CODE, .qmax = MOST_CODE
        };
        for (int64_t i = 0; i < m; i++) piece[i] = x[(at + i) * step];
        k->encode(&row, piece, codes, NULL);
        for (int64_t i = 0; i < m; i++) y[(at + i) * gap] = codes[i];
    }
}

/* Rows are tokens of a head, head by head, so that threads write apart. */
static void encode_rows(const void *args, const dt__share *s)
{
    const work *w = args;
    const dt_tensor *x = w->x;
    dt_tensor *codes = w->to->codes, *scales = w->to->scale;
    const int64_t tokens = x->dims[1], width = x->dims[3];
    const int64_t time = codes->strides[w->to->keys ? 2 : 1];
    const int64_t element = codes->strides[w->to->keys ? 1 : 2];
    for (int64_t row = s->first; row < s->past; row++) {
        const int64_t head = row / tokens, token = row % tokens, at = w->to->first + token;
        const float *from =
            (const float *)dt__data(x) + token * x->strides[1] + head * x->strides[2];
        const float most = extent_of(w->kernels, width, from, x->strides[3]);
        if (most < 0) {
            dt__lower(w->bad, row);
            continue;
        }
        float scale = most / MOST_CODE;
        if (scale < LEAST_SCALE) scale = LEAST_SCALE;
        ((float *)dt__data_mut(scales))[head * scales->strides[0] + at] = scale;
        encode_row(w->kernels, width, from, x->strides[3], scale,
                   (int8_t *)dt__data_mut(codes) + head * codes->strides[0] + at * time, element);
    }
}

dt_status dt__cache_encode(dt_ctx *ctx, const dt_module *m, dt_tensor *x, const dt__cache_codes *to)
{
    if (x->dtype != DT_F32) {
        return dt_fail(ctx, DT_ERR_DTYPE, "module %s: keys and values are %s; int8 caches hold f32",
                       m->path, dt_dtype_name(x->dtype));
    }
    const int64_t rows = x->dims[1] * x->dims[2];
    _Atomic int64_t bad = rows;
    const work w = { dt__kernels_of(ctx, DT_F32), x, to, &bad };
    dt__parallel(rows, 4 * x->dims[3], encode_rows, &w);
    if (bad == rows) return DT_OK;
    return dt_fail(ctx, DT_ERR_NUMERIC, "module %s: a %s of token %lld is not finite", m->path,
                   to->keys ? "key" : "value", (long long)(to->first + bad % x->dims[1]));
}
