/* The codes of a key-value cache, of each token and head (docs/numerics.md §2). Of 8 bits
 *     scale = max(max |x| / 127, 2^-23)       code = rne(x (1 / scale)), in -127 ... 127
 * and of 4 bits, where x is the row times the Hadamard matrix and m its element of the largest
 * magnitude (of equals the negative one), as ggml's q4_0 does:
 *     scale = m / -8, of magnitude 2^-23 at least     code = rne(x (1 / scale)), in -8 ... 7 */
#include "nn/cache/cache.h"

#include "core/threads.h"
#include "kernels/kernels.h"

#include <math.h>

#define LEAST_SCALE 0x1p-23f
#define PIECE 256 /* elements that are encoded at a time */

typedef struct work {
    const dt__kernels *kernels;
    const dt_tensor *x;
    const dt__cache_codes *to;
    _Atomic int64_t *bad; /* the first row that is not finite, or the number of rows */
} work;

/* A row of n elements, and where its codes go: elements and codes are `step` and `gap` apart. */
typedef struct line {
    int64_t n;
    const float *x;
    int64_t step;
    bool packed;
    int8_t *y;
    int64_t gap;
} line;

static void read_piece(const line *l, int64_t at, int64_t n, float *piece)
{
    for (int64_t i = 0; i < n; i++) piece[i] = l->x[(at + i) * l->step];
}

/* 0 if an element is not finite. */
static float scale_of(const dt__kernels *k, const line *l)
{
    float least = 0, most = 0;
    for (int64_t at = 0; at < l->n; at += PIECE) {
        float piece[PIECE], lo, hi;
        const int64_t m = dt__min_i64(PIECE, l->n - at);
        read_piece(l, at, m, piece);
        if (k->range(m, m, piece, &lo, &hi) >= 0) return 0;
        least = lo < least ? lo : least;
        most = hi > most ? hi : most;
    }
    const float extent = -least > most ? -least : most;
    if (!l->packed) return fmaxf(extent / 127, LEAST_SCALE);
    return fmaxf(extent / 8, LEAST_SCALE) * (-least >= most ? 1 : -1);
}

static void encode_piece(const dt__kernels *k, const line *l, float scale, const int64_t at[2],
                         int8_t *codes)
{
    float piece[PIECE];
    const int64_t n = at[1] - at[0];
    const dt__code_row row = { .n = n,
                               .group = n,
                               .scale = &scale,
                               .qmin = l->packed ? -8 : -127,
                               .qmax = l->packed ? 7 : 127 };
    if (n <= 0) return;
    read_piece(l, at[0], n, piece);
    k->encode(&row, piece, codes, NULL);
}

/* A byte has codes of elements i and i + half, the former in its lower bits. */
static void encode_line(const dt__kernels *k, const line *l, float scale)
{
    const int64_t half = l->packed ? dt__half_row(l->n) : l->n;
    for (int64_t at = 0; at < half; at += PIECE) {
        int8_t codes[PIECE], upper[PIECE] = { 0 }, *y = l->y + at * l->gap;
        const int64_t past = dt__min_i64(half, at + PIECE), last = dt__min_i64(half + past, l->n);
        encode_piece(k, l, scale, (const int64_t[]){ at, past }, codes);
        if (l->packed) encode_piece(k, l, scale, (const int64_t[]){ half + at, last }, upper);
        for (int64_t i = 0; i < past - at && l->packed; i++) {
            codes[i] = (int8_t)((codes[i] & 15) | upper[i] * 16);
        }
        for (int64_t i = 0; i < past - at; i++) y[i * l->gap] = codes[i];
    }
}

/* Rows are tokens of a head, head by head, so that threads write apart. */
static void encode_rows(const void *args, const dt__share *s)
{
    const work *w = args;
    const dt_tensor *x = w->x;
    dt_tensor *codes = w->to->codes, *scales = w->to->scale;
    const int64_t time = codes->strides[w->to->keys ? 2 : 1];
    for (int64_t row = s->first; row < s->past; row++) {
        const int64_t head = row / x->dims[1], token = row % x->dims[1];
        const int64_t at = w->to->first + token;
        const line l = {
            .n = x->dims[3],
            .x = (const float *)dt__data(x) + token * x->strides[1] + head * x->strides[2],
            .step = x->strides[3],
            .packed = codes->dtype == DT_U8,
            .y = (int8_t *)dt__data_mut(codes) + head * codes->strides[0] + at * time,
            .gap = codes->strides[w->to->keys ? 1 : 2],
        };
        const float scale = scale_of(w->kernels, &l);
        if (scale == 0) {
            dt__lower(w->bad, row);
            continue;
        }
        ((float *)dt__data_mut(scales))[head * scales->strides[0] + at] = scale;
        encode_line(w->kernels, &l, scale);
    }
}

/* Contiguous rows. */
typedef struct rotation {
    const dt__kernels *kernels;
    int64_t width;
    float *x;
} rotation;

static void rotate_rows(const void *args, const dt__share *s)
{
    const rotation *r = args;
    for (int64_t row = s->first; row < s->past; row++) {
        r->kernels->hadamard(r->width, r->x + row * r->width);
    }
}

static dt_status encode(dt_ctx *ctx, const dt_module *m, const dt_tensor *x,
                        const dt__cache_codes *to)
{
    const int64_t rows = x->dims[1] * x->dims[2];
    _Atomic int64_t bad = rows;
    const work w = { dt__kernels_of(ctx, DT_F32), x, to, &bad };
    dt__parallel(rows, 4 * x->dims[3], encode_rows, &w);
    if (bad == rows) return DT_OK;
    return dt_fail(ctx, DT_ERR_NUMERIC, "module %s: a %s of token %lld is not finite", m->path,
                   to->keys ? "key" : "value", (long long)(to->first + bad % x->dims[1]));
}

dt_status dt__cache_encode(dt_ctx *ctx, const dt_module *m, dt_tensor *x, const dt__cache_codes *to)
{
    dt_tensor *copy;
    if (x->dtype != DT_F32) {
        return dt_fail(ctx, DT_ERR_DTYPE,
                       "module %s: keys and values are %s; caches of codes hold f32", m->path,
                       dt_dtype_name(x->dtype));
    }
    if (to->codes->dtype != DT_U8) return encode(ctx, m, x, to);
    DT__TRY(dt__tensor_create_raw(ctx, DT_F32, 4, x->dims, &copy));
    dt__copy_tensor(x, copy);
    const rotation r = { dt__kernels_of(ctx, DT_F32), x->dims[3], dt__data_mut(copy) };
    dt__parallel(x->dims[1] * x->dims[2], 8 * r.width, rotate_rows, &r);
    const dt_status s = encode(ctx, m, copy, to);
    dt_tensor_free(copy);
    return s;
}
