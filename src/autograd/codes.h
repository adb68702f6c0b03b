/* Codes as ops use them: dequantization of tiles, and integer products. */
#ifndef DT__AUTOGRAD_CODES_H
#define DT__AUTOGRAD_CODES_H

#include "autograd/kind.h"
#include "kernels/kernels.h"
#include "kernels/convolution/row_map.h"

#include <detent/experimental/ops.h>

/* Integer codes of a tensor, as rows of groups: immutable, reference-counted. The dequantized value
 * of element (r, c) is (q - z) * s, with the scale s and zero point z of its group. The codes are
 * either in `u`, as rows (activations), or in `panels` (a weight). */
struct dt__codes {
    atomic_int refs;
    dt_ctx *ctx;
    int64_t rows, columns;
    /* columns per group (the last of a row may be shorter); groups per row */
    int64_t group, groups;
    int bits;
    bool integer;       /* usable in an integer product */
    bool blocks;        /* rows of `u` are in blocks, each with its own scale and zero point 0 */
    bool int8_backward; /* for a weight: gradients of its product are products of integers */
    bool packed;     /* `u` has two codes of at most 4 bits per byte, the first in the low half */
    int64_t stride;  /* bytes from a row of `u` to the next */
    uint8_t *u;      /* [rows][stride], stored code + 128, followed by DT__STEP bytes of padding */
    float *scale;    /* scales of `u`, [rows][groups]; panels contain their own */
    int32_t *zero_u; /* if `integer`: [rows], zero point of `u` + 128 */
    int8_t *zero;    /* [rows][groups], or [1] where zero_step is 0; NULL: all 0 */
    int64_t zero_step;
    void *panels;
    dt__panel_layout layout; /* of `panels` */
    int32_t *order;          /* the column order of `layout`, or NULL */
    dt__row_map map;         /* for a weight: which tensor elements a row of codes holds */
    /* [rows as the scheme divides the tensor]: a bit is 0 for a clipped code; NULL: no code was
     * clipped */
    uint8_t *mask;
    int64_t clipped; /* number of clipped codes */
    /* For the gradient of a learned scale: residuals, or the quantized values (rows as in the
     * codes, contiguous); neither if the quantized tensor still exists. `steps`: the learned
     * scales, if a tape computed them; NULL: they are a parameter. The versions are those at
     * quantization. */
    int8_t *residual;
    dt__storage *values, *steps;
    int64_t offset, first_step; /* index of the first element in `values`, and in `steps` */
    uint64_t version, scale_version;
    /* for an expert: the codes of the grouped weight, whose panels, zero points and order it uses;
     * a reference */
    struct dt__codes *whole;
};

/* The codes of expert i of a grouped weight's `codes`, which hold panels. Shares their memory. */
dt_status dt__codes_expert(dt__codes *codes, int64_t i, dt__codes **out);

/* Dequantizes a block, on the calling thread: y[r - r0][c - c0] = (q - z) * s, in f32. */
void dt__codes_expand(const dt__codes *codes, const dt__patch *block);

/* Dequantizes all rows, on threads. */
void dt__codes_expand_all(const dt__codes *codes, float *y);

/* y[i] = the dequantized row index[i] of an embedding table: codes without a row map. */
void dt__codes_gather(const dt__codes *codes, const dt__gather *g, float *y);

/* Bytes of rows of `u` for a product, which may read DT__STEP bytes behind the last. Packed codes:
 * unpacks up to dt__codes_slice rows, on threads, into `room` of dt__codes_room bytes. Other codes:
 * returns a pointer into u; a slice is all rows, and `room` needs 0 bytes. */
int64_t dt__codes_slice(const dt__codes *x);
size_t dt__codes_room(const dt__codes *x);
int64_t dt__codes_byte_stride(const dt__codes *x);
const uint8_t *dt__codes_bytes(const dt__codes *x, int64_t r0, int64_t rows, void *room);

/* Writes row r of `u` as bytes, with its columns permuted by `order` unless that is NULL: `columns`
 * bytes; up to DT__STEP bytes behind them may be overwritten. */
void dt__codes_row(const dt__codes *x, const int32_t *order, int64_t r, uint8_t *to);

/* Whether an integer product can multiply rows of activations x by the panels of a weight w. If x
 * is in blocks, the weight's groups must have the same size. */
bool dt__codes_multiply(const dt__codes *x, const dt__codes *w);
/* Whether m rows of floats are multiplied by the weight's codes directly, without dequantizing
 * it. */
bool dt__codes_multiply_floats(int64_t m, const dt__codes *w);

/* A weight of a product, and where its product goes. */
typedef struct dt__codes_weight {
    const dt__codes *w;
    const float *bias; /* for an integer product; NULL: none */
    float *y;          /* [m][n], contiguous */
    /* rows of w, all of one expert, n0 the first row of a panel; 0, 0: all rows */
    int64_t n0, n1;
} dt__codes_weight;

#define DT__MOST_WEIGHTS DT_MAX_OUT

/* Whether one call can multiply both weights by the same rows: neither has a column order, and
 * their panels have the same form. */
bool dt__codes_alike(const dt__codes *a, const dt__codes *b);

/* y = x w^T (docs/numerics.md §2) for n weights that are dt__codes_alike, or one; x is contiguous.
 * `room` has dt__codes_floats_room bytes, for x with permuted columns; 0 if there is no column
 * order. */
size_t dt__codes_floats_room(int64_t m, const dt__codes *w);
typedef struct dt__codes_floats {
    int64_t m;
    const float *x;
    int n;
    const dt__codes_weight *weight;
    void *room;
} dt__codes_floats;
void dt__codes_product_floats(const dt__codes_floats *p);

/* y = x w^T + bias (docs/numerics.md §2) for n weights that are dt__codes_alike, or one. `room` has
 * dt__codes_product_room bytes. */
typedef struct dt__codes_products {
    const dt__codes *x;
    int n;
    const dt__codes_weight *weight;
    void *room;
    int64_t m0, m1; /* rows of x; 0, 0: all rows */
} dt__codes_products;

size_t dt__codes_product_room(const dt__codes *x, const dt__codes *w);
void dt__codes_product(const dt__codes_products *p);

#endif
