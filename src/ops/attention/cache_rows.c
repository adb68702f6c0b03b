/* Codes of keys and values: cache_rows.h. */
#include "ops/attention/cache_rows.h"

#include "core/threads.h"

#include <math.h>
#include <string.h>

#define LEAST_SCALE 0x1p-23f

typedef struct work {
    const dt__kernels *kernels;
    const dt__cache_rows *rows;
    _Atomic int64_t *bad; /* the first row that is not finite, or the number of rows */
    void *y;
} work;

/* The position of loop item `row`: rows are numbered head by head, so that threads write to
 * different regions of a cache. */
typedef struct place {
    int64_t batch, head, time;
} place;

static place place_of(const dt__cache_rows *r, int64_t row)
{
    return (place){ row / r->time / r->heads, row / r->time % r->heads, row % r->time };
}

static int64_t offset_of(const place *p, const int64_t *strides)
{
    return p->batch * strides[0] + p->time * strides[1] + p->head * strides[2];
}

/* Floats of scratch per thread: a row, and its codes. */
static int64_t room_of_row(int64_t width) { return width + dt__ceil_div(width, sizeof(float)); }

int64_t dt__cache_rows_room(int64_t width, int threads) { return threads * room_of_row(width); }

static void read_row(const dt__cache_rows *r, int64_t at, float *y)
{
    const int64_t step = r->x.strides[3];
    if (r->dtype == DT_F32) {
        const float *x = (const float *)r->x.x + at;
        for (int64_t i = 0; i < r->width; i++) y[i] = x[i * step];
    } else {
        const double *x = (const double *)r->x.x + at;
        for (int64_t i = 0; i < r->width; i++) y[i] = (float)x[i * step];
    }
}

/* The scale of a row; NaN if an element is not finite. */
static float scale_of(const dt__kernels *k, const dt__cache_rows *r, const float *x)
{
    float least = 0, most = 0;
    if (r->width > 0 && k->range(r->width, r->width, x, &least, &most) >= 0) return NAN;
    const float extent = -least > most ? -least : most;
    if (!r->packed) return fmaxf(extent / 127, LEAST_SCALE);
    return fmaxf(extent / 8, LEAST_SCALE) * (-least >= most ? 1 : -1);
}

/* A byte holds the codes of elements i (lower bits) and i + half. */
static void write_codes(const dt__cache_rows *r, int64_t at, const int8_t *codes)
{
    const int64_t half = dt__half_row(r->width), step = r->code_strides[3];
    int8_t *y = r->codes + at;
    if (!r->packed) {
        for (int64_t i = 0; i < r->width; i++) y[i * step] = codes[i];
        return;
    }
    for (int64_t i = 0; i < half; i++) {
        const int upper = i + half < r->width ? codes[i + half] : 0;
        y[i * step] = (int8_t)((codes[i] & 15) | upper * 16);
    }
}

static void write_scale(const dt__cache_rows *r, const place *p, float scale)
{
    const int64_t at = offset_of(p, r->scale_strides);
    if (r->dtype == DT_F32) ((float *)r->scale)[at] = scale;
    else ((double *)r->scale)[at] = (double)scale;
}

static void encode_rows(const void *args, const dt__share *s)
{
    const work *w = args;
    const dt__cache_rows *r = w->rows;
    float *x = r->room + s->thread * room_of_row(r->width);
    int8_t *codes = (int8_t *)(x + r->width);
    for (int64_t row = s->first; row < s->past; row++) {
        const place p = place_of(r, row);
        read_row(r, offset_of(&p, r->x.strides), x);
        if (r->packed) w->kernels->hadamard(r->width, x);
        const float scale = scale_of(w->kernels, r, x);
        if (isfinite(scale)) {
            const dt__code_row of = { .n = r->width,
                                      .group = r->width,
                                      .scale = &scale,
                                      .qmin = r->packed ? -8 : -127,
                                      .qmax = r->packed ? 7 : 127 };
            if (r->width > 0) w->kernels->encode(&of, x, codes, NULL);
        } else {
            memset(codes, 0, (size_t)r->width);
            dt__lower(w->bad, row);
        }
        write_codes(r, offset_of(&p, r->code_strides), codes);
        write_scale(r, &p, scale);
    }
}

int64_t dt__cache_rows_encode(const dt__kernels *k, const dt__cache_rows *r)
{
    const int64_t rows = r->batch * r->time * r->heads;
    _Atomic int64_t bad = rows;
    const work w = { .kernels = k, .rows = r, .bad = &bad };
    dt__parallel(rows, (r->packed ? 12 : 4) * r->width, encode_rows, &w);
    return bad == rows ? -1 : bad % r->time;
}

/* ---- back to floats -------------------------------------------------------------------------- */

static int code_at(const dt__cache_rows *r, const int8_t *codes, int64_t i)
{
    const int64_t half = dt__half_row(r->width), step = r->code_strides[3];
    if (!r->packed) return codes[i * step];
    const int byte = (uint8_t)codes[i % half * step];
    return ((i < half ? byte & 15 : byte >> 4) ^ 8) - 8;
}

static double scale_at(const dt__cache_rows *r, const place *p)
{
    const int64_t at = offset_of(p, r->scale_strides);
    return r->dtype == DT_F32 ? (double)((const float *)r->scale)[at]
                              : ((const double *)r->scale)[at];
}

static void decode_rows(const void *args, const dt__share *s)
{
    const work *w = args;
    const dt__cache_rows *r = w->rows;
    const size_t size = dt_dtype_size(r->dtype);
    const double by = r->packed ? 1 / (double)dt__hadamard_order(r->width) : 1;
    for (int64_t row = s->first; row < s->past; row++) {
        const place p = place_of(r, row);
        const int8_t *codes = r->codes + offset_of(&p, r->code_strides);
        const int64_t line = (p.batch * r->time + p.time) * r->heads + p.head;
        void *y = (uint8_t *)w->y + (size_t)(line * r->width) * size;
        const double scale = scale_at(r, &p) * by;
        for (int64_t i = 0; i < r->width; i++) {
            const double x = code_at(r, codes, i) * scale;
            if (r->dtype == DT_F32) ((float *)y)[i] = (float)x;
            else ((double *)y)[i] = x;
        }
        if (r->packed) w->kernels->hadamard(r->width, y);
    }
}

void dt__cache_rows_decode(const dt__kernels *k, const dt__cache_rows *r, void *y)
{
    const work w = { .kernels = k, .rows = r, .y = y };
    dt__parallel(r->batch * r->time * r->heads, 8 * r->width, decode_rows, &w);
}
