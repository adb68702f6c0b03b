/* Layers along dimensions of an example: reductions and softmax. */
#include "nn/layers/op_layer.h"

#include <float.h>
#include <math.h>

/* ---- sums, maxima ---------------------------------------------------------------------------- */

static const dt_reduce_options *reduce_of(const void *options)
{
    return &((const dt_reduce_layer *)options)->reduce;
}

/* The dimensions of x that are reduced, as a set of bits; 0, with an error, if the batch is one of
 * them. */
static unsigned dims_of(dt_tape *t, const dt_tensor *x, const dt_reduce_options *o)
{
    unsigned set = 0;
    for (int i = 0; i < o->dims.n; i++) {
        const int64_t d = o->dims.v[i] < 0 ? o->dims.v[i] + x->rank : o->dims.v[i];
        if (d > 0 && d < x->rank && (set >> d & 1) == 0) {
            set |= 1u << d;
            continue;
        }
        dt_tape_fail(t, DT_ERR_ARG,
                     "dimension %lld of %d, the batch among them; each of the others can be "
                     "reduced once",
                     (long long)o->dims.v[i], x->rank);
        return 0;
    }
    return set;
}

/* Applies f along each of the dimensions, from the last to the first. */
static dt_tensor *one_by_one(dt_tape *t, const dt_reduce_options *o, dt_tensor *x,
                             dt_tensor *(*f)(dt_tape *t, dt_tensor *x, int d, bool keep))
{
    const unsigned set = x == NULL ? 0 : dims_of(t, x, o);
    dt_tensor *y = set == 0 ? NULL : x;
    for (int d = DT_MAX_RANK - 1; d > 0 && y != NULL; d--) {
        if ((set >> d & 1) != 0) y = dt__then(t, y, f(t, y, d, o->keepdim));
    }
    return y;
}

static dt_tensor *largest(dt_tape *t, dt_tensor *x, int d, bool keep)
{
    return dt_max(t, x, d, keep, NULL);
}

static dt_tensor *part(dt_tape *t, dt_tensor *x, int d, int64_t first, int64_t past)
{
    const dt_slice_options o = { .dims = { 1, { d } },
                                 .starts = { 1, { first } },
                                 .stops = { 1, { past } } };
    return dt_slice(t, x, &o);
}

/* Multiplies the two halves of the dimension until one element is left. */
static dt_tensor *product(dt_tape *t, dt_tensor *x, int d, bool keep)
{
    dt_tensor *odd = NULL, *y = x;
    while (y != NULL && y->dims[d] > 1) {
        const int64_t n = y->dims[d] / 2;
        if (y->dims[d] % 2 != 0) {
            dt_tensor *last = part(t, y, d, 2 * n, 2 * n + 1);
            odd = odd == NULL ? last : dt_mul(t, odd, last);
        }
        y = dt_mul(t, part(t, y, d, 0, n), part(t, y, d, n, 2 * n));
    }
    if (odd != NULL) y = dt_mul(t, y, odd);
    return keep ? y : dt_sum(t, y, &(dt_reduce_options){ .dims = { 1, { d } } });
}

static dt_tensor *sum_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dims_of(t, in[0], reduce_of(options)) == 0 ? NULL : dt_sum(t, in[0], reduce_of(options));
}

static dt_tensor *mean_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dims_of(t, in[0], reduce_of(options)) == 0 ? NULL
                                                      : dt_mean(t, in[0], reduce_of(options));
}

static dt_tensor *amax_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return one_by_one(t, reduce_of(options), in[0], largest);
}

static dt_tensor *amin_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_neg(t, one_by_one(t, reduce_of(options), dt_neg(t, in[0]), largest));
}

static dt_tensor *prod_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return one_by_one(t, reduce_of(options), in[0], product);
}

/* At least the smallest float: if all elements are 0 the gradient is then 0, not 0/0, and the norm
 * is 3.7e-23. */
static dt_tensor *l2_norm_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    if (dims_of(t, in[0], reduce_of(options)) == 0) return NULL;
    dt_tensor *sum = dt_sum(t, dt_square(t, in[0]), reduce_of(options));
    return dt_sqrt(t, dt_clamp(t, sum, 0x1p-149, INFINITY));
}

/* m + log(sum of e^(x - m)) with the maximum m, which is made finite if all elements are -inf */
static dt_tensor *logsumexp_over(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    dt_reduce_options o = *reduce_of(options);
    (void)n_in;
    o.keepdim = true;
    dt_tensor *m = dt_clamp(t, one_by_one(t, &o, in[0], largest), -(double)FLT_MAX, INFINITY);
    dt_tensor *y = dt_log(t, dt_sum(t, dt_exp(t, dt_sub(t, in[0], m)), &o));
    y = dt_add(t, y, m);
    return reduce_of(options)->keepdim ? y : dt_sum(t, y, reduce_of(options));
}

static dt_status check_dims(dt_ctx *ctx, const char *name, const void *options)
{
    const dt_ints *dims = &reduce_of(options)->dims;
    bool batch = dims->n < 1;
    for (int i = 0; i < dims->n; i++) batch |= dims->v[i] == 0;
    if (!batch) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: dims must name dimensions, and not 0, the batch", name);
}

#define REDUCTION(kind, about)                                                                     \
    static const dt_key kind##_keys[] = {                                                          \
        DT__LAYER_HEAD(#kind, dt_reduce_layer),                                                    \
        { "dims", DT_KEY_INTS, offsetof(dt_reduce_layer, reduce.dims), .least = -DT_MAX_RANK,      \
          .most = DT_MAX_RANK - 1, .fallback = "!", .fewest = 1,                                   \
          .text = "dimensions, not 0, the batch; -1 is the last" },                                \
        { "keepdim", DT_KEY_BOOL, offsetof(dt_reduce_layer, reduce.keepdim), .fallback = "false",  \
          .text = "these dimensions stay, with extent 1" },                                        \
        { 0 },                                                                                     \
    };                                                                                             \
    DT__OP_LAYER(kind, about, dt_reduce_layer, kind##_keys, 1, 1, .apply = kind##_over,            \
                 .check = check_dims, .operands = 1)

REDUCTION(sum, "sum over dimensions");
REDUCTION(mean, "mean over dimensions");
REDUCTION(amax, "largest element over dimensions");
REDUCTION(amin, "smallest element over dimensions");
REDUCTION(prod, "product over dimensions");
REDUCTION(l2_norm, "square root of the sum of squares over dimensions");
REDUCTION(logsumexp, "logarithm of the sum of e^x over dimensions");

/* ---- softmax --------------------------------------------------------------------------------- */

static int64_t dim_of(const void *options) { return ((const dt_dim_layer *)options)->dim; }

static dt_tensor *softmax_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_softmax(t, in[0], dim_of(options));
}

static dt_tensor *log_softmax_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_log_softmax(t, in[0], dim_of(options));
}

static dt_status check_dim(dt_ctx *ctx, const char *name, const void *options)
{
    const int64_t dim = dim_of(options);
    if (dim >= -DT_MAX_RANK && dim < DT_MAX_RANK) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: dimension %lld; %d...%d can be", name, (long long)dim,
                   -DT_MAX_RANK, DT_MAX_RANK - 1);
}

#define ALONG(kind, about)                                                                         \
    static const dt_key kind##_keys[] = { DT__DIM_KEYS(#kind), { 0 } };                            \
    DT__OP_LAYER(kind, about, dt_dim_layer, kind##_keys, 1, 1, .apply = kind##_of,                 \
                 .check = check_dim, .operands = 1)

ALONG(softmax, "softmax along a dimension");
ALONG(log_softmax, "logarithm of softmax along a dimension");

dt_status dt_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__op_layer_create(ctx, &softmax_op, &(const dt_dim_layer){ .dim = dim }, out);
}

dt_status dt_log_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__op_layer_create(ctx, &log_softmax_op, &(const dt_dim_layer){ .dim = dim }, out);
}

#define REDUCED(name, kind, keep, ...)                                                             \
    DT__OP_MAKE(name, kind, dt_reduce_layer, .reduce = { .dims = { __VA_ARGS__ }, .keepdim = keep })
REDUCED(sum, sum, false, 1, { -1 })
REDUCED(sums, sum, true, 2, { 3, 1 })
REDUCED(mean, mean, false, 1, { 1 })
REDUCED(amax, amax, false, 1, { -1 })
REDUCED(amaxes, amax, true, 2, { 1, -1 })
REDUCED(amin, amin, false, 2, { 1, 2 })
REDUCED(prod, prod, false, 1, { 1 })
REDUCED(prods, prod, true, 2, { 1, 2 })
REDUCED(l2_norm, l2_norm, false, 1, { 1 })
REDUCED(logsumexp, logsumexp, false, 1, { 1 })
REDUCED(logsumexps, logsumexp, true, 2, { 1, 2 })
REDUCED(batch, sum, false, 2, { 1, 0 })
REDUCED(none, amax, false, 0, { 0 })
REDUCED(last, mean, false, 1, { -2 })
DT__OP_MAKE(softmax, softmax, dt_dim_layer, .dim = -1)
DT__OP_MAKE(softmax_channels, softmax, dt_dim_layer, .dim = 1)
DT__OP_MAKE(softmax_beyond, softmax, dt_dim_layer, .dim = DT_MAX_RANK)
DT__OP_MAKE(log_softmax, log_softmax, dt_dim_layer, .dim = -1)
DT__OP_MAKE(log_softmax_channels, log_softmax, dt_dim_layer, .dim = 1)
DT__OP_MAKE(log_softmax_beyond, log_softmax, dt_dim_layer, .dim = DT_MAX_RANK)

#define GIVEN(...) .in = { { { 1, 4 }, .given = true, .values = { __VA_ARGS__ } } }

static const dt__layer_case cases[] = {
    { "sum", made_sum_sum, GIVEN(1, 2, 3, -4), .n_y = 1, .y = { 2 } },
    { "sum of a batch", made_sum_sums, .in = { { { 2, 3, 2, 4 } } } },
    { "mean", made_mean_mean, GIVEN(1, 2, 3, -4), .n_y = 1, .y = { 0.5 } },
    { "mean of a batch", made_mean_mean, .in = { { { 2, 3, 4 } } } },
    { "amax", made_amax_amax, GIVEN(1, 2, 3, -4), .n_y = 1, .y = { 3 } },
    { "amax of a batch", made_amax_amaxes, .in = { { { 2, 3, 2, 4 } } } },
    { "amin", made_amin_amin, .in = { { { 1, 2, 2 }, .given = true, .values = { 4, 2, -3, 1 } } },
      .n_y = 1, .y = { -3 } },
    { "prod", made_prod_prod, GIVEN(1, 2, 3, -4), .n_y = 1, .y = { -24 } },
    { "prod of a batch", made_prod_prods, .in = { { { 2, 5, 7 } } } },
    { "prod of an odd number", made_prod_prod,
      .in = { { { 1, 7 }, .given = true, .values = { 1, 2, 3, -4, 5, 6, 7 } } }, .n_y = 1,
      .y = { -5040 } },
    { "l2_norm", made_l2_norm_l2_norm, GIVEN(1, 2, -2, 4), .n_y = 1, .y = { 5 } },
    { "l2_norm of zeros", made_l2_norm_l2_norm, GIVEN(0, 0, 0, 0), .n_y = 1,
      .y = { 3.743392066509216e-23 } },
    { "logsumexp", made_logsumexp_logsumexp, GIVEN(1, 2, 3, -4), .n_y = 1,
      .y = { 3.4082124017544171 } },
    { "logsumexp of large values", made_logsumexp_logsumexp, GIVEN(1000, 1000, 1000, 1000),
      .n_y = 1, .y = { 1001.3862943611199 }, .rough = true },
    { "logsumexp of a batch", made_logsumexp_logsumexps, .in = { { { 2, 3, 4 } } } },
    { "over the batch", made_sum_batch, .fails = DT_ERR_ARG,
      .says = "sum: dims must name dimensions" },
    { "over nothing", made_amax_none, .fails = DT_ERR_ARG, .says = "amax: dims must name" },
    { "over the batch from the end", made_mean_last, .in = { { { 2, 3 } } }, .fails = DT_ERR_ARG,
      .says = "dimension -2 of 2, the batch among them" },
    { "softmax", made_softmax_softmax,
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, 3 } } }, .n_y = 4,
      .y = { 0.2689414213699951, 0.7310585786300049, 0.5, 0.5 } },
    { "softmax of channels", made_softmax_softmax_channels, .in = { { { 2, 3, 4 } } } },
    { "softmax of no such dimension", made_softmax_softmax_channels, .in = { { { 3 } } },
      .fails = DT_ERR_ARG, .says = "dimension 1" },
    { "softmax beyond every rank", made_softmax_softmax_beyond, .fails = DT_ERR_ARG,
      .says = "softmax: dimension 8" },
    { "log_softmax", made_log_softmax_log_softmax,
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, 3 } } }, .n_y = 4,
      .y = { -1.3132616875182228, -0.31326168751822286, -0.6931471805599453,
             -0.6931471805599453 } },
    { "log_softmax of channels", made_log_softmax_log_softmax_channels, .in = { { { 2, 3, 4 } } } },
    { "log_softmax of no such dimension", made_log_softmax_log_softmax_channels,
      .in = { { { 3 } } }, .fails = DT_ERR_ARG, .says = "dimension 1" },
    { "log_softmax beyond every rank", made_log_softmax_log_softmax_beyond, .fails = DT_ERR_ARG,
      .says = "log_softmax: dimension 8" },
};
DT__OP_LAYER_CASES(reductions, cases)
