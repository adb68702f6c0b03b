/* Codes as the ops use them: images of tiles, and the integer product. */
#ifndef DT__AUTOGRAD_CODES_H
#define DT__AUTOGRAD_CODES_H

#include "autograd/kind.h"
#include "kernels/kernels.h"
#include "kernels/row_map.h"

#include <detent/ops.h>

/* Integer codes of a tensor, as rows of groups: immutable, reference-counted. The image of element
 * (r, c) is (q - z) * s with the scale s and zero point z of its group. Either `u` or `panels`
 * holds the codes: rows of activations, or a weight. */
struct dt__codes {
    atomic_int refs;
    dt_ctx *ctx;
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group (the row's last may be shorter); groups of a row */
    int bits;
    bool integer;    /* an integer product may use them */
    bool packed;     /* `u` has two codes a byte, the first in the low half: of at most 4 bits */
    int64_t stride;  /* bytes from one row of `u` to the next */
    uint8_t *u;      /* [rows][stride], stored code + 128; DT__STEP bytes of slack behind */
    float *scale;    /* of `u`: [rows][groups]; panels hold their own */
    int32_t *zero_u; /* of an `integer` u: [rows], zero point + 128 */
    int8_t *zero;    /* [rows][groups], or [1] where zero_step is 0; NULL: all 0 */
    int64_t zero_step;
    void *panels;
    dt__panel_layout layout; /* of `panels` */
    int32_t *order;          /* of `layout`, where it has one */
    dt__row_map map;         /* of a weight */
    uint8_t *mask; /* [rows of the scheme's cut]: bit 0 where a code was clipped; NULL: all pass */
    int64_t clipped; /* elements whose code was clipped */
    /* What the gradient of a learned scale needs: residuals, or values without gaps (rows of
     * codes), or neither, where what was quantized is still there. Versions are those it was made
     * of. */
    int8_t *residual;
    dt__storage *values;
    int64_t offset; /* of the first of `values` */
    uint64_t version, scale_version;
    struct dt__codes
        *whole; /* of an expert: whose panels, zero points and order are used; a reference */
};

/* Codes of expert i alone of a grouped weight's `codes`, which hold panels: in the same memory. */
dt_status dt__codes_expert(dt__codes *codes, int64_t i, dt__codes **out);

/* y[r - r0][c - c0] = (q - z) * s over a block, whose y is floats; on the calling thread. */
void dt__codes_expand(const dt__codes *codes, const dt__patch *block);

/* The image of all rows, on threads. */
void dt__codes_expand_all(const dt__codes *codes, float *y);

/* y[i] = the image of row index[i], rows being those of a table: codes without a row map. */
void dt__codes_gather(const dt__codes *codes, const dt__gather *g, float *y);

/* Rows of `u` as products read them: bytes, DT__STEP of which may be read behind the last. Where
 * they are packed, so many rows at a time are unpacked, on threads, into so much room of the
 * caller's; else a slice is all rows as they lie, and room is 0. */
int64_t dt__codes_slice(const dt__codes *x);
size_t dt__codes_room(const dt__codes *x);
int64_t dt__codes_byte_stride(const dt__codes *x);
const uint8_t *dt__codes_bytes(const dt__codes *x, int64_t r0, int64_t rows, void *room);

/* Row r of `u` as bytes, its columns in an order unless that is NULL: `columns` bytes, and DT__STEP
 * behind them may be written. */
void dt__codes_row(const dt__codes *x, const int32_t *order, int64_t r, uint8_t *to);

/* Whether an integer product of these may run: rows of activations against a weight's panels. */
bool dt__codes_multiply(const dt__codes *x, const dt__codes *w);
/* Whether m rows of floats are multiplied by the weight's codes as they are, not by their image. */
bool dt__codes_multiply_floats(int64_t m, const dt__codes *w);

/* A weight that is multiplied, and where the product goes. */
typedef struct dt__codes_weight {
    const dt__codes *w;
    const float *bias; /* of codes times codes; NULL: none */
    float *y;          /* [m][n], without gaps */
    int64_t n0, n1;    /* these rows of w, of one expert, n0 the first of a panel; 0, 0: all */
} dt__codes_weight;

#define DT__MOST_WEIGHTS DT_MAX_OUT

/* Whether several weights are multiplied by the same rows at once: neither has an order, and codes
 * lie alike. */
bool dt__codes_alike(const dt__codes *a, const dt__codes *b);

/* y = x w^T by numerics §2 for n alike weights (or one), x without gaps. `room`: for rows that are
 * gathered where w has an order, else 0. */
size_t dt__codes_floats_room(int64_t m, const dt__codes *w);
typedef struct dt__codes_floats {
    int64_t m;
    const float *x;
    int n;
    const dt__codes_weight *weight;
    void *room;
} dt__codes_floats;
void dt__codes_product_floats(const dt__codes_floats *p);

/* y = x w^T + bias by numerics §2 for n alike weights (or one). `room`: dt__codes_product_room. */
typedef struct dt__codes_products {
    const dt__codes *x;
    int n;
    const dt__codes_weight *weight;
    void *room;
    int64_t m0, m1; /* these rows of x; 0, 0: all */
} dt__codes_products;

size_t dt__codes_product_room(const dt__codes *x, const dt__codes *w);
void dt__codes_product(const dt__codes_products *p);

#endif
