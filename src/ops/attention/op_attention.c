/* Attention as one op (Vaswani et al. 2017; tiles and log-sum-exp as FlashAttention, Dao et al.
 * 2022), with sliding windows (Beltagy et al. 2020).
 *     s = scale q k^T, -inf where masked or outside of the window
 *     lse = log sum exp(s)      p = exp(s - lse)
 *     y = p v
 *     dv = p^T dy      ds = p (dy v^T - rowsum(dy y)) scale      dq = ds k      dk = ds^T q
 * Scores and probabilities exist one tile at a time; backward recomputes them from lse. */
#include "ops/attention/attention_call.h"
#include "ops/ops_list.h"

#include <math.h>
#include <string.h>

enum { Q = DT__ATTENTION_Q, K = DT__ATTENTION_K, V = DT__ATTENTION_V, MASK, DOCUMENT, OPERANDS };

const dt_attention_options dt__attention_options = { .causal = true };

dt_attention_options dt_attention_defaults(void) { return dt__attention_options; }

const dt_key dt__attention_keys[] = {
    { "causal", DT_KEY_BOOL, .offset = offsetof(dt_attention_options, causal), .fallback = "true" },
    { "scale", DT_KEY_REAL, .offset = offsetof(dt_attention_options, scale), .least = -DT_NO_LIMIT,
      .most = DT_NO_LIMIT, .fallback = "0" },
    { "window", DT_KEY_INT, .offset = offsetof(dt_attention_options, window), .most = DT_NO_LIMIT,
      .fallback = "0" },
    { "cache", DT_KEY_CHOICE, .offset = offsetof(dt_attention_options, cache),
      .choices = dt_cache_names, .fallback = "f32" },
    { 0 },
};

dt_status dt__attention_shape(dt_call *c, int rows)
{
    const dt_attention_options *o = c->options;
    DT__TRY(dt__want_rank(c, Q, 4, 4));
    DT__TRY(dt__want_rank(c, K, 4, 4));
    const int64_t *q = c->in[Q]->dims, *k = c->in[K]->dims;
    const int64_t width = rows == DT__HALF_ROWS ? dt__half_row(q[3]) : q[3];
    DT__TRY(dt__want_dims(c, K, 4, (const int64_t[]){ q[0], k[1], k[2], width }));
    DT__TRY(dt__want_dims(c, V, 4, k));
    if (k[2] < 1 || q[2] % k[2] != 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "the %lld heads of k do not divide the %lld of q",
                         (long long)k[2], (long long)q[2]);
    }
    if (!isfinite(o->scale)) return dt_refuse(c, DT_ERR_ARG, "scale is %g, not finite", o->scale);
    if (o->window < 0 || (o->window > 0 && !o->causal)) {
        return dt_refuse(c, DT_ERR_ARG, "window is %lld; it must be 0, or above with `causal`",
                         (long long)o->window);
    }
    DT__TRY(dt__shape_like(c, Q));
    const dt__attention a = {
        .batch = q[0], .queries = q[1], .heads = q[2], .width = q[3], .keys = k[1], .kv_heads = k[2]
    };
    c->scratch_bytes =
        (size_t)dt__attention_room(&a, dt_threads(c->ctx)) * dt_dtype_size(c->y->dtype);
    return dt_result(c, 1, c->in[Q]->dtype, 3, q);
}

dt_status dt__attention_floats(const dt_call *c)
{
    const dt_attention_options *o = c->options;
    if (o->cache == DT_CACHE_F32) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "cache is %d; only attention_cached has one", o->cache);
}

/* Checks an operand of [B, Tk]. */
static dt_status check_masks(const dt_call *c, const int64_t *dims)
{
    const dt_tensor *mask = c->in[MASK];
    if (mask != NULL) {
        if (mask->dtype != DT_U8 && mask->dtype != DT_BOOL) {
            return dt_refuse(c, DT_ERR_DTYPE, "key_mask is %s; it must be u8 or bool",
                             dt_dtype_name(mask->dtype));
        }
        DT__TRY(dt__want_dims(c, MASK, 2, dims));
    }
    if (c->in[DOCUMENT] == NULL) return DT_OK;
    DT__TRY(dt__want_dtype(c, DOCUMENT, DT_I32));
    DT__TRY(dt__want_dims(c, DOCUMENT, 2, dims));
    if (c->in[Q]->dims[1] <= dims[1]) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "with document, queries must be at most as many as keys");
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 3, OPERANDS));
    DT__TRY(dt__attention_floats(c));
    DT__TRY(dt__attention_shape(c, DT__WHOLE_ROWS));
    for (int i = K; i <= V; i++) DT__TRY(dt__want_float(c, i));
    return check_masks(c, c->in[K]->dims);
}

dt__heads dt__heads_of(const dt_tensor *x)
{
    dt__heads h = { .x = dt__data(x) };
    memcpy(h.strides, x->strides, sizeof h.strides);
    return h;
}

static dt__of_keys of_keys(const dt_call *c, int i)
{
    const dt_tensor *x = i < c->n_in ? c->arg[i] : NULL;
    if (x == NULL) return (dt__of_keys){ .x = NULL };
    return (dt__of_keys){ dt__data(x), { x->strides[0], x->strides[1] } };
}

dt__attention dt__attention_of(const dt_call *c)
{
    const dt_attention_options *o = c->options;
    const int64_t *q = c->arg[Q]->dims, *k = c->arg[K]->dims;
    return (dt__attention){ .batch = q[0],
                            .queries = q[1],
                            .heads = q[2],
                            .width = q[3],
                            .keys = k[1],
                            .kv_heads = k[2],
                            .scale = o->scale != 0 ? o->scale : 1 / sqrt((double)q[3]),
                            .causal = o->causal,
                            .window = dt__min_i64(o->window, k[1]),
                            .q = dt__heads_of(c->arg[Q]),
                            .k = dt__heads_of(c->arg[K]),
                            .v = dt__heads_of(c->arg[V]),
                            .y = dt__data_mut(c->y),
                            .lse = dt__data_mut(c->out[1]),
                            .room = c->scratch };
}

static dt__attention problem(const dt_call *c)
{
    dt__attention a = dt__attention_of(c);
    a.mask = of_keys(c, MASK);
    a.document = of_keys(c, DOCUMENT);
    return a;
}

static void forward(const dt_call *c)
{
    const dt__attention a = problem(c);
    c->kernels->attention(&a);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__attention a = problem(c);
    void *d[3];
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->attention_backward(&a, dt__data(dy), d);
}

static size_t scratch(const dt_call *c)
{
    const dt__attention a = problem(c);
    return (size_t)dt__attention_back_room(&a, dt_threads(c->ctx)) * dt_dtype_size(c->y->dtype);
}

const dt_op dt__op_attention = {
    .name = "attention",
    .text = "y = softmax(scale q k^T) v of each head, over the keys that a query attends to",
    .in_name = { "q", "k", "v", "key_mask", "document" },
    .out_name = { "y", "lse" },
    .undifferentiable = { [MASK] = true, [DOCUMENT] = true },
    .optional = { [MASK] = true, [DOCUMENT] = true },
    .strided = true,
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE },
               .out = { DT_VALUE, DT_VALUE } },
    DT__OP_OPTIONS(dt_attention_options, dt__attention_options, dt__attention_keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

/* Checks the operands of attention to codes, given or made in the op; on failure the error is on
 * the tape. */
static bool allows_codes(dt_tape *t, const dt_attention_operands *operands)
{
    const bool given = operands->k_scale != NULL;
    if (t == NULL || t->status != DT_OK) return false;
    if (operands->key_mask != NULL || operands->document != NULL) {
        dt_tape_fail(t, DT_ERR_ARG, "attention: %s excludes masks", given ? "k_scale" : "a cache");
    } else if (given && !t->no_grad && operands->q != NULL && dt_requires_grad(operands->q)) {
        dt_tape_fail(t, DT_ERR_STATE, "attention: with k_scale there is no gradient");
    }
    return t->status == DT_OK;
}

dt_tensor *dt_attention(dt_tape *t, const dt_attention_operands *operands,
                        const dt_attention_options *options, dt_tensor **lse)
{
    DT__NEED_OP(t, operands);
    dt_tensor *out[2] = { NULL };
    dt_tensor *in[OPERANDS] = { operands->q, operands->k, operands->v, operands->key_mask,
                                operands->document };
    const bool given = operands->k_scale != NULL;
    const bool made = options != NULL && options->cache != DT_CACHE_F32;
    if (!given && !made) {
        dt_apply_n(t, &dt__op_attention, in, OPERANDS, options, out, 2);
    } else if (allows_codes(t, operands)) {
        in[MASK] = operands->k_scale;
        in[DOCUMENT] = operands->v_scale;
        dt_apply_n(t, given ? &dt__op_attention_codes : &dt__op_attention_cached, in,
                   given ? OPERANDS : MASK, options, out, 2);
    }
    if (lse != NULL) *lse = out[1];
    return out[0];
}

#define NOT_CAUSAL DT__WITH(dt_attention_options, .causal = false)
#define SCALE(s) DT__WITH(dt_attention_options, .causal = true, .scale = s)
#define WINDOW(n) DT__WITH(dt_attention_options, .causal = true, .window = n)
#define DOCUMENTS(...) __VA_ARGS__, .low = -1, .high = 2, .dtype = DT_I32
#define ABSENT                                                                                     \
    {                                                                                              \
        .absent = true                                                                             \
    }

/* Scores are ln 3 and 0: p is 3/4 and 1/4. */
static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 1, 1 }, .given = true, .values = { 5, 1.0986122886681098 } },
              { { 1, 2, 1, 1 }, .given = true, .values = { 1, 0 } },
              { { 1, 2, 1, 1 }, .given = true, .values = { 4, 8 } } },
      .n_y = 2, .y = { 4, 5 } },
    { "nothing seen",
      .in = { { { 1, 2, 1, 1 }, .given = true, .values = { 1, 1 } },
              { { 1, 1, 1, 1 }, .given = true, .values = { 3 } },
              { { 1, 1, 1, 1 }, .given = true, .values = { 7 } } },
      .n_y = 2, .y = { 0, 7 } },
    { "masked",
      .in = { { { 1, 1, 1, 1 }, .given = true, .values = { 1 } },
              { { 1, 3, 1, 1 }, .given = true, .values = { 9, 2, 9 } },
              { { 1, 3, 1, 1 }, .given = true, .values = { 7, 8, 9 } },
              { { 1, 3 }, .given = true, .values = { 0, 1, 0 }, .dtype = DT_BOOL } },
      .n_y = 1, .y = { 8 } },
    { "grouped", .in = { { { 2, 5, 4, 3 } }, { { 2, 5, 2, 3 } }, { { 2, 5, 2, 3 } } } },
    { "cached", .in = { { { 2, 2, 2, 4 } }, { { 2, 7, 2, 4 } }, { { 2, 7, 2, 4 } } },
      .options = SCALE(0.7) },
    { "one query", .in = { { { 2, 1, 6, 5 } }, { { 2, 9, 2, 5 } }, { { 2, 9, 2, 5 } } } },
    { "all to all", .in = { { { 1, 4, 2, 3 } }, { { 1, 6, 2, 3 } }, { { 1, 6, 2, 3 } } },
      .options = NOT_CAUSAL },
    { "fewer keys", .in = { { { 1, 6, 1, 3 } }, { { 1, 4, 1, 3 } }, { { 1, 4, 1, 3 } } } },
    { "key mask", .in = { { { 2, 6, 2, 3 } },
                          { { 2, 6, 1, 3 } },
                          { { 2, 6, 1, 3 } },
                          { { 2, 6 }, .low = 0, .high = 2, .dtype = DT_U8 } } },
    { "documents", .in = { { { 2, 6, 2, 3 } },
                           { { 2, 6, 1, 3 } },
                           { { 2, 6, 1, 3 } },
                           ABSENT,
                           { DOCUMENTS({ 2, 6 }) } } },
    { "both",
      .in = { { { 2, 4, 2, 3 } },
              { { 2, 6, 2, 3 } },
              { { 2, 6, 2, 3 } },
              { { 2, 6 }, .low = 0, .high = 2, .dtype = DT_U8 },
              { DOCUMENTS({ 2, 6 }) } },
      .options = NOT_CAUSAL },
    { "a window of one",
      .in = { { { 1, 2, 1, 1 }, .given = true, .values = { 5, 1 } },
              { { 1, 2, 1, 1 }, .given = true, .values = { 1, 0 } },
              { { 1, 2, 1, 1 }, .given = true, .values = { 4, 8 } } },
      .options = WINDOW(1), .n_y = 2, .y = { 4, 8 } },
    { "window", .in = { { { 2, 6, 4, 3 } }, { { 2, 6, 2, 3 } }, { { 2, 6, 2, 3 } } },
      .options = WINDOW(3) },
    { "window of the cached", .in = { { { 2, 2, 2, 4 } }, { { 2, 7, 2, 4 } }, { { 2, 7, 2, 4 } } },
      .options = WINDOW(4) },
    { "window and documents",
      .in = { { { 2, 6, 2, 3 } },
              { { 2, 6, 1, 3 } },
              { { 2, 6, 1, 3 } },
              { { 2, 6 }, .low = 0, .high = 2, .dtype = DT_U8 },
              { DOCUMENTS({ 2, 6 }) } },
      .options = WINDOW(3) },
    { "window above the keys", .in = { { { 1, 3, 2, 3 } }, { { 1, 5, 2, 3 } }, { { 1, 5, 2, 3 } } },
      .options = WINDOW(9) },
    { "the longest window", .in = { { { 1, 3, 4, 3 } }, { { 1, 5, 2, 3 } }, { { 1, 5, 2, 3 } } },
      .options = WINDOW(INT64_MAX) },
    { "long window", .in = { { { 1, 70, 2, 5 } }, { { 1, 150, 1, 5 } }, { { 1, 150, 1, 5 } } },
      .options = WINDOW(37), .rough = true },
    { "long", .in = { { { 1, 70, 2, 5 } }, { { 1, 150, 1, 5 } }, { { 1, 150, 1, 5 } } },
      .rough = true },
    { "no queries", .in = { { { 2, 0, 2, 3 } }, { { 2, 4, 2, 3 } }, { { 2, 4, 2, 3 } } } },
    { "no keys", .in = { { { 2, 3, 2, 3 } }, { { 2, 0, 2, 3 } }, { { 2, 0, 2, 3 } } } },
    { "no elements",
      .in = { { { 2, 3, 2, 0 }, 4 }, { { 2, 3, 2, 0 }, 4 }, { { 2, 3, 2, 0 }, 4 } } },
    { "heads", .in = { { { 1, 2, 3, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "the 2 heads of k do not divide the 3 of q" },
    { "no heads", .in = { { { 1, 2, 0, 4 } }, { { 1, 2, 0, 4 } }, { { 1, 2, 0, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "the 0 heads" },
    { "widths", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 3 } }, { { 1, 2, 2, 3 } } },
      .fails = DT_ERR_SHAPE, .says = "k must be [1,2,2,4]" },
    { "values' shape", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 3, 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "v must be [1,2,2,4]" },
    { "rank", .in = { { { 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "rank 3" },
    { "mask's shape",
      .in = { { { 1, 2, 2, 4 } },
              { { 1, 2, 2, 4 } },
              { { 1, 2, 2, 4 } },
              { { 2, 2 }, .low = 0, .high = 2, .dtype = DT_U8 } },
      .fails = DT_ERR_SHAPE, .says = "key_mask must be [1,2]" },
    { "mask's dtype",
      .in = { { { 1, 2, 2, 4 } },
              { { 1, 2, 2, 4 } },
              { { 1, 2, 2, 4 } },
              { { 1, 2 }, .low = 0, .high = 2, .dtype = DT_I32 } },
      .fails = DT_ERR_DTYPE, .says = "key_mask is i32" },
    { "documents of fewer keys",
      .in = { { { 1, 3, 2, 4 } },
              { { 1, 2, 2, 4 } },
              { { 1, 2, 2, 4 } },
              ABSENT,
              { DOCUMENTS({ 1, 2 }) } },
      .fails = DT_ERR_SHAPE, .says = "at most as many as keys" },
    { "scale", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .options = SCALE(DT__NAN), .fails = DT_ERR_ARG, .says = "scale is" },
    { "window below 0", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .options = WINDOW(-1), .fails = DT_ERR_ARG, .says = "window is -1" },
    { "window of all to all", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .options = &(const dt_attention_options){ .window = 2 }, .fails = DT_ERR_ARG,
      .says = "window is 2; it must be 0, or above with `causal`" },
    { "integers",
      .in = { { { 1, 2, 2, 4 }, .dtype = DT_I32 }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(attention, cases)
