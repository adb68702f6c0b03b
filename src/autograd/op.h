/* Included by every file of src/ops: the call, helpers of shape functions, and the form of
 * cases. */
#ifndef DT__AUTOGRAD_OP_H
#define DT__AUTOGRAD_OP_H

#include "autograd/tape.h"
#include "kernels/kernels.h"

/* The operands of dt_apply as arguments: DT__CALL(x, w) or DT__CALL_WITH(&options, x, w). */
#define DT__COUNT_ARGS(...) ((int)(sizeof((dt_tensor *[]){ __VA_ARGS__ }) / sizeof(dt_tensor *)))
#define DT__CALL(...) (dt_tensor *[]){ __VA_ARGS__ }, DT__COUNT_ARGS(__VA_ARGS__), NULL
#define DT__CALL_WITH(options, ...)                                                                \
    (dt_tensor *[]){ __VA_ARGS__ }, DT__COUNT_ARGS(__VA_ARGS__), options

/* ---- shape rules ----------------------------------------------------------------------------- */

/* The result is like operand i: same dtype and dims. Refuses what is not f32 or f64. */
dt_status dt__shape_like(dt_call *c, int i);
/* Result i is a view of operand 0's storage. */
dt_status dt__result_view(dt_call *c, int i, int rank, const int64_t *dims, const int64_t *strides,
                          int64_t offset);
/* Broadcasts dims of a and b from the right; SHAPE if they do not fit. */
dt_status dt__broadcast(dt_call *c, int a, int b, int *rank, int64_t *dims);
/* The same without the last `skip` dimensions, which are not set. */
dt_status dt__broadcast_batch(const dt_call *c, int a, int b, int skip, int64_t *dims);
/* Checks that operand i broadcasts to the dims of operand `to`. */
dt_status dt__want_broadcast(const dt_call *c, int i, int to);
/* Checks that many shape functions share. Each returns DT_OK or a refusal. */
dt_status dt__want_operands(const dt_call *c, int least, int most);
dt_status dt__want_dtype(const dt_call *c, int i, dt_dtype dtype);
dt_status dt__want_float(const dt_call *c, int i);
dt_status dt__want_rank(const dt_call *c, int i, int least, int most);
/* Checks that operand i has exactly these dims; the message says what they should be. */
dt_status dt__want_dims(const dt_call *c, int i, int rank, const int64_t *dims);
/* The extent of a dimension of operand i; negative dimensions count from the end. */
dt_status dt__want_dim(const dt_call *c, int i, int64_t dim, int *out);
/* Checks that every index of an i32 or i64 operand is in [0, n) or equals `ignore`; else ARG,
 * naming the first. */
dt_status dt__want_indices(const dt_call *c, int i, int64_t n, const int64_t *ignore);

/* For a call that no tape records. open sets arguments and codes of the operands by role and kind,
 * as dispatch does; codes that are given are kept. `pull` gets, for each operand, the codes that
 * its kind's pullback may read. close frees all of these, also after an error. */
dt_status dt__call_open(dt_call *c, dt__codes **pull);
void dt__call_close(dt_call *c, dt__codes **pull);

/* For the forward of an in-place op that writes operand i block by block: write_begin and written
 * of its kind (autograd/kind.h). dt__written may be called from any thread. */
const dt__panel_layout *dt__write_begin(const dt_call *c, int i);
void dt__written(const dt_call *c, int i, int64_t first, int64_t end);

/* For forward: memory for the values of operand i, contiguous and rounded to bf16, which forward
 * must fill if it is not NULL. Backward reads them if nothing else needs the operand. */
uint16_t *dt__halves_of(const dt_call *c, int i);

/* A product of the call's floats, or several. */
static inline void dt__multiply(const dt_call *c, const dt__gemm *g)
{
    const dt__kernels *k = c->kernels;
    void (*const by[])(const dt__gemm *) = { k->gemm, k->gemm_bf16, k->gemm_tiles };
    by[c->products](g);
}
static inline void dt__multiply_all(const dt_call *c, const dt__gemms *s)
{
    const dt__kernels *k = c->kernels;
    void (*const by[])(const dt__gemms *) = { k->gemms, k->gemms_bf16, k->gemms_tiles };
    by[c->products](s);
}

/* Element k of a contiguous i32 or i64 tensor. */
static inline int64_t dt__index_at(const dt_tensor *x, int64_t k)
{
    return x->dtype == DT_I32 ? ((const int32_t *)dt__data(x))[k]
                              : ((const int64_t *)dt__data(x))[k];
}

/* Element i of a contiguous f32 or f64 tensor. */
static inline double dt__real_at(const dt_tensor *x, int64_t i)
{
    return x->dtype == DT_F32 ? (double)((const float *)dt__data(x))[i]
                              : ((const double *)dt__data(x))[i];
}

/* The only element of a contiguous f32 or f64 tensor. */
static inline double dt__scalar(const dt_tensor *x) { return dt__real_at(x, 0); }

/* The data of operand i; NULL: it is absent. */
static inline const void *dt__arg_data(const dt_call *c, int i)
{
    return c->arg[i] == NULL ? NULL : dt__data(c->arg[i]);
}

/* Rows and columns of a tensor seen as a matrix whose columns are its last dimension. */
static inline int64_t dt__columns(const dt_tensor *x)
{
    return x->rank == 0 ? 1 : x->dims[x->rank - 1];
}
static inline int64_t dt__rows(const dt_tensor *x)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < x->rank; i++) rows *= x->dims[i];
    return rows;
}

/* Fields of a dt_op that has options: their type, defaults and table of keys. */
#define DT__OP_OPTIONS(type, first, table)                                                         \
    .options_size = sizeof(type), .defaults = &(first), .keys = table

/* ---- cases: what tests try of an op, written beside it --------------------------------------- */

#define DT__CASE_IN 7
#define DT__CASE_VALUES 16

typedef struct dt__case_tensor {
    int64_t dims[DT_MAX_RANK];
    int r;      /* rank; 0: the dims up to the last that is not 0; DT__SCALAR: rank 0 */
    bool given; /* values[] are the data; else random in [low, high) */
    double values[DT__CASE_VALUES];
    double low, high; /* both 0: [-1, 1) */
    dt_dtype dtype;   /* integers: indices in [low, high) */
    bool absent;      /* NULL, if the op allows it */
    bool other;       /* f64 if the call is in f32, and vice versa */
} dt__case_tensor;

#define DT__SCALAR (-1)
#define DT__NAN __builtin_nan("")

/* For the braces of cases: a list; a tensor of dims DT__LIST(...) with these values; options. */
#define DT__LIST(...)                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define DT__GIVEN(extents, ...)                                                                    \
    {                                                                                              \
        extents, .given = true, .values = { __VA_ARGS__ }                                          \
    }
#define DT__WITH(type, ...) (&(const type){ __VA_ARGS__ })

typedef struct dt__case {
    const char *name;
    dt__case_tensor in[DT__CASE_IN];
    int n_in; /* 0: the number of operands that have dims or r */
    const void *options;
    double y[DT__CASE_VALUES]; /* the expected values, if `check_y` */
    int n_y;                   /* number of values in y */
    dt_status fails;           /* the expected error; DT_OK: none */
    const char *says;          /* substring of the expected message */
    bool rough;                /* not smooth at these values, or random: no gradient check */
    bool by_lower; /* backward is not forward's derivative; compared with that of `lower` */
} dt__case;

typedef struct dt__op_cases {
    const dt_op *op;
    const dt__case *cases;
    int n;
} dt__op_cases;

/* Ends a file of src/ops: publishes the cases for the tests as dt__cases_of_<name>. */
#define DT__CASES(op_name, table)                                                                  \
    extern const dt__op_cases dt__cases_of_##op_name;                                              \
    const dt__op_cases dt__cases_of_##op_name = { &dt__op_##op_name, table, DT__COUNT_OF(table) };

/* A copy of a call's options, to be freed by dt__release; NULL if the op has none. NOMEM. */
dt_status dt__copy_call_options(dt_ctx *ctx, const dt_call *c, const void **out);

#endif
