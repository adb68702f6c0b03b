/* Products of matrices. Sums run in double in the order of k: sums of integers are exact up to
 * 2^53, and those of floats are rounded once, at their end. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <string.h>

/* Matrices of a batch: element (row, column) of matrix b is at start + row * rows + column. */
typedef struct product {
    const dt__verify_call *c;
    int64_t m, k, n;
    int64_t row[2], column[2]; /* strides of rows and columns of a [m, k] and b [k, n] */
    double *b;                 /* one matrix b as doubles, [k, n] */
    double *sum;               /* a row of the result */
    double *a;                 /* a row of a */
} product;

static dt_status product_room(dt__verify_call *c, product *p)
{
    int64_t size;
    p->c = c;
    if (__builtin_mul_overflow(p->k, p->n, &size)) size = -1;
    DT__TRY(dt__verify_scratch(c, size, sizeof(double), (void **)&p->b));
    DT__TRY(dt__verify_scratch(c, p->n, sizeof(double), (void **)&p->sum));
    return dt__verify_scratch(c, p->k, sizeof(double), (void **)&p->a);
}

static void load_b(const product *p, const dt__verify_value *b, int64_t start)
{
    for (int64_t k = 0; k < p->k; k++) {
        dt__verify_load_real(b, start + k * p->row[1], p->column[1], p->n, p->b + k * p->n);
        dt__verify_did(p->c, (double)p->n);
    }
}

/* p->sum = p->a b */
static void multiply_row(const product *p)
{
    for (int64_t j = 0; j < p->n; j++) p->sum[j] = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double a = p->a[k], *b = p->b + k * p->n;
        for (int64_t j = 0; j < p->n; j++) p->sum[j] += a * b[j];
        dt__verify_did(p->c, (double)p->n);
    }
}

/* Zero points as doubles: one per row of a, one per column of b. NULL: none. */
typedef struct zero_points {
    const dt__verify_value *a, *b;
} zero_points;

static double zero_at(const dt__verify_value *zero, int64_t i)
{
    return zero == NULL ? 0 : dt__verify_real_at(zero, zero->count == 1 ? 0 : i);
}

/* Computes the product of one pair of matrices, in integers or reals. */
static void multiply(const product *p, const dt__verify_value *a, int64_t start, zero_points zero,
                     dt__verify_value *y, int64_t to)
{
    for (int64_t k = 0; zero.b != NULL && k < p->k; k++) {
        for (int64_t j = 0; j < p->n; j++) p->b[k * p->n + j] -= zero_at(zero.b, j);
    }
    for (int64_t i = 0; i < p->m; i++) {
        dt__verify_load_real(a, start + i * p->row[0], p->column[0], p->k, p->a);
        for (int64_t k = 0; zero.a != NULL && k < p->k; k++) p->a[k] -= zero_at(zero.a, i);
        multiply_row(p);
        if (dt__verify_is_real(y->type)) {
            dt__verify_store_real(y, to + i * p->n, p->n, p->sum);
        } else {
            for (int64_t j = 0; j < p->n; j++) {
                const int64_t sum = (int64_t)p->sum[j]; /* wraps to 32 bits */
                dt__verify_store_whole(y, to + i * p->n + j, 1, &sum);
            }
        }
    }
}

/* Operands of at least two dimensions: a vector gets extent 1 in front (a) or behind (b). */
typedef struct matrices {
    dt__verify_value a, b;
    int rank;
    int64_t dims[DT_MAX_RANK]; /* of the result, without these added dimensions */
} matrices;

static dt_status as_matrices(const dt__verify_call *c, matrices *m, product *p)
{
    m->a = *c->in[0];
    m->b = *c->in[1];
    const bool row = m->a.rank == 1, column = m->b.rank == 1;
    if (m->a.rank == 0 || m->b.rank == 0)
        return dt__verify_refuse(c,
                                 "an operand is one number; expected a vector or more dimensions");
    if (row) {
        m->a.dims[1] = m->a.dims[0];
        m->a.dims[0] = 1;
        m->a.rank = 2;
    }
    if (column) {
        m->b.dims[1] = 1;
        m->b.rank = 2;
    }
    const int64_t *a = m->a.dims + m->a.rank - 2, *b = m->b.dims + m->b.rank - 2;
    if (a[1] != b[0]) {
        return dt__verify_refuse(
            c, "a product of [%lld, %lld] and [%lld, %lld]; expected as many columns as rows",
            (long long)a[0], (long long)a[1], (long long)b[0], (long long)b[1]);
    }
    *p = (product){ .m = a[0], .k = a[1], .n = b[1], .row = { a[1], b[1] }, .column = { 1, 1 } };
    m->a.rank -= 2;
    m->b.rank -= 2;
    const dt__verify_value *const both[2] = { &m->a, &m->b };
    DT__TRY(dt__verify_broadcast(c, both, 2, &m->rank, m->dims));
    if (m->rank + 2 > DT_MAX_RANK)
        return dt__verify_refuse(c, "a product of more than %d dimensions", DT_MAX_RANK);
    return DT_OK;
}

static dt_status run_batches(dt__verify_call *c, dt__verify_type type, zero_points zero)
{
    matrices m;
    product p;
    dt__verify_value *y;
    DT__TRY(as_matrices(c, &m, &p));
    dt__verify_walk w = { .rank = m.rank };
    memcpy(w.dims, m.dims, sizeof w.dims);
    DT__TRY(dt__verify_spread(c, &m.a, m.rank, m.dims, w.stride[0]));
    DT__TRY(dt__verify_spread(c, &m.b, m.rank, m.dims, w.stride[1]));
    int rank = m.rank;
    if (c->in[0]->rank > 1) m.dims[rank++] = p.m;
    if (c->in[1]->rank > 1) m.dims[rank++] = p.n;
    if ((zero.a != NULL && zero.a->count != 1 && zero.a->count != p.m) ||
        (zero.b != NULL && zero.b->count != 1 && zero.b->count != p.n)) {
        return dt__verify_refuse(c, "zero points for neither all, nor rows of a, nor columns of b");
    }
    DT__TRY(dt__verify_make(c, 0, type, rank, m.dims, &y));
    DT__TRY(product_room(c, &p));
    DT__TRY(dt__verify_work(c, (double)y->count, (double)p.k, 1));
    const int64_t size = p.m * p.n;
    for (int64_t to = 0; to < y->count; to += size, dt__verify_step(&w)) {
        DT__TRY(dt__verify_work(c, (double)p.k, (double)p.n, 1));
        load_b(&p, c->in[1], w.offset[1] * p.k * p.n);
        multiply(&p, c->in[0], w.offset[0] * p.m * p.k, zero, y, to);
    }
    return DT_OK;
}

static dt_status matmul(dt__verify_call *c)
{
    return run_batches(c, c->in[0]->type, (zero_points){ NULL, NULL });
}

static dt_status matmul_integer(dt__verify_call *c)
{
    const zero_points zero = { dt__verify_in(c, 2), dt__verify_in(c, 3) };
    if ((DT__VERIFY_BYTES >> c->in[1]->type & 1) == 0 ||
        (zero.a != NULL && zero.a->type != c->in[0]->type) ||
        (zero.b != NULL && zero.b->type != c->in[1]->type)) {
        return dt__verify_refuse(c, "zero points have other types than their operands");
    }
    return run_batches(c, DT__VERIFY_I32, zero);
}

/* y = alpha a b + beta c, with a and b transposed by transA and transB; c is broadcast */
static dt_status gemm(dt__verify_call *c)
{
    const dt__verify_value *a = c->in[0], *b = c->in[1], *bias = dt__verify_in(c, 2);
    const double alpha = dt__onnx_real_attribute(c->node, "alpha", 1),
                 beta = dt__onnx_real_attribute(c->node, "beta", 1);
    const int ta = dt__onnx_int_of(c->node, "transA", 0) != 0,
              tb = dt__onnx_int_of(c->node, "transB", 0) != 0;
    int64_t stride[DT_MAX_RANK] = { 0 };
    dt__verify_value *y;
    if (a->rank != 2 || b->rank != 2 || a->dims[!ta] != b->dims[tb]) {
        return dt__verify_refuse(c, "operands that are not matrices, or do not fit each other");
    }
    product p = { .m = a->dims[ta],
                  .k = a->dims[!ta],
                  .n = b->dims[!tb],
                  .row = { ta ? 1 : a->dims[1], tb ? 1 : b->dims[1] },
                  .column = { ta ? a->dims[1] : 1, tb ? b->dims[1] : 1 } };
    const int64_t dims[2] = { p.m, p.n };
    if (bias != NULL) DT__TRY(dt__verify_spread(c, bias, 2, dims, stride));
    DT__TRY(dt__verify_make(c, 0, a->type, 2, dims, &y));
    DT__TRY(product_room(c, &p));
    DT__TRY(dt__verify_work(c, (double)p.m + 1, (double)p.k, (double)p.n));
    load_b(&p, b, 0);
    for (int64_t i = 0; i < p.m; i++) {
        dt__verify_load_real(a, i * p.row[0], p.column[0], p.k, p.a);
        multiply_row(&p);
        for (int64_t j = 0; j < p.n; j++) {
            p.sum[j] *= alpha;
            if (bias == NULL) continue;
            p.sum[j] += beta * dt__verify_real_at(bias, i * stride[0] + j * stride[1]);
        }
        dt__verify_store_real(y, i * p.n, p.n, p.sum);
    }
    return DT_OK;
}

/* ---- com.microsoft MatMulNBits, levels 0 and 4 ----------------------------------------------- */

/* Code i of a row of `bits`-bit codes, the lowest bits of a byte first. */
static int code_at(const uint8_t *row, int64_t i, int64_t bits)
{
    const int64_t per = 8 / bits;
    return row[i / per] >> (i % per * bits) & ((1 << bits) - 1);
}

typedef struct nbits {
    int64_t k, n, bits, size, blocks;
    bool coded; /* level 4: rows of the operand are quantized to int8 in blocks */
    const dt__verify_value *codes, *scales, *zeros, *bias;
} nbits;

static dt_status read_nbits(const dt__verify_call *c, nbits *w)
{
    *w = (nbits){ dt__onnx_int_of(c->node, "K", 0),
                  dt__onnx_int_of(c->node, "N", 0),
                  dt__onnx_int_of(c->node, "bits", 4),
                  dt__onnx_int_of(c->node, "block_size", 0),
                  0,
                  dt__onnx_int_of(c->node, "accuracy_level", 0) == 4,
                  c->in[1],
                  c->in[2],
                  dt__verify_in(c, 3),
                  dt__verify_in(c, 5) };
    if ((w->bits != 2 && w->bits != 4 && w->bits != 8) || w->size < 16 || w->size > 65536 ||
        (w->size & (w->size - 1)) != 0 || w->k < 1 || w->n < 1 || w->k > INT32_MAX ||
        w->n > INT32_MAX || dt__verify_in(c, 4) != NULL) {
        return dt__verify_refuse(c, "its attributes, or g_idx, are not known here");
    }
    w->blocks = dt__ceil_div(w->k, w->size);
    const int64_t zero_bytes = dt__ceil_div(w->blocks * w->bits, 8);
    const bool fits =
        w->codes->type == DT__VERIFY_U8 && w->scales->type == DT__VERIFY_F32 &&
        w->codes->count / w->n == w->blocks * (w->size * w->bits / 8) &&
        w->codes->count % w->n == 0 && w->scales->count == w->n * w->blocks &&
        (w->zeros == NULL ||
         (w->zeros->type == DT__VERIFY_U8 && w->zeros->count == w->n * zero_bytes)) &&
        (w->bias == NULL || (w->bias->type == DT__VERIFY_F32 && w->bias->count == w->n));
    return fits ? DT_OK : dt__verify_refuse(c, "codes, scales, zero points or bias do not fit");
}

/* b[k, n] = (code - zero) * scale */
static void expand_nbits(const nbits *w, double *b)
{
    const int64_t row_bytes = w->blocks * (w->size * w->bits / 8);
    const int64_t zero_bytes = dt__ceil_div(w->blocks * w->bits, 8);
    for (int64_t j = 0; j < w->n; j++) {
        const uint8_t *row = (const uint8_t *)w->codes->data + j * row_bytes;
        for (int64_t k = 0; k < w->k; k++) {
            const int64_t block = k / w->size;
            const int zero =
                w->zeros == NULL
                    ? 1 << (w->bits - 1)
                    : code_at((const uint8_t *)w->zeros->data + j * zero_bytes, block, w->bits);
            b[k * w->n + j] = (double)(code_at(row, k, w->bits) - zero) *
                              dt__verify_real_at(w->scales, j * w->blocks + block);
        }
    }
}

/* Rounds a row to codes from -127 to 127 with one scale per block, and dequantizes them. */
static void round_blocks(const nbits *w, double *a)
{
    for (int64_t from = 0; from < w->k; from += w->size) {
        const int64_t end = dt__min_i64(from + w->size, w->k);
        double most = 0;
        for (int64_t k = from; k < end; k++) most = fmax(most, fabs(a[k]));
        const double scale = (double)(float)(most / 127);
        for (int64_t k = from; k < end && scale > 0; k++) a[k] = nearbyint(a[k] / scale) * scale;
    }
}

static dt_status matmul_nbits(dt__verify_call *c)
{
    const dt__verify_value *a = c->in[0];
    nbits w;
    int64_t dims[DT_MAX_RANK];
    dt__verify_value *y;
    DT__TRY(read_nbits(c, &w));
    if (a->rank < 1 || a->dims[a->rank - 1] != w.k) {
        return dt__verify_refuse(c, "the operand has no rows of K = %lld", (long long)w.k);
    }
    memcpy(dims, a->dims, sizeof dims);
    dims[a->rank - 1] = w.n;
    product p = { .m = a->count / w.k, .k = w.k, .n = w.n };
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_F32, a->rank, dims, &y));
    DT__TRY(product_room(c, &p));
    DT__TRY(dt__verify_work(c, (double)p.m + 1, (double)p.k, (double)p.n));
    expand_nbits(&w, p.b);
    for (int64_t i = 0; i < p.m; i++) {
        dt__verify_load_real(a, i * p.k, 1, p.k, p.a);
        if (w.coded) round_blocks(&w, p.a);
        multiply_row(&p);
        for (int64_t j = 0; w.bias != NULL && j < p.n; j++) {
            p.sum[j] += dt__verify_real_at(w.bias, j);
        }
        dt__verify_store_real(y, i * p.n, p.n, p.sum);
    }
    return DT_OK;
}

const dt__verify_operator dt__verify_products[] = {
    { "MatMul", matmul, 2, 2, 1, 2, DT__VERIFY_FLOATS, NULL, NULL, NULL, 0, 0 },
    { "Gemm", gemm, 2, 3, 1, 3, DT__VERIFY_FLOATS, "alpha beta transA transB ", NULL, NULL, 0, 0 },
    { "MatMulInteger", matmul_integer, 2, 4, 1, 1, DT__VERIFY_BYTES, NULL, NULL, NULL, 0, 0 },
    { .name = NULL },
};

const dt__verify_operator dt__verify_microsoft[] = {
    { "MatMulNBits", matmul_nbits, 3, 6, 1, 1, DT__VERIFY_BIT(F32),
      "K N bits block_size accuracy_level ", NULL, NULL, 0, 0 },
    { .name = NULL },
};
