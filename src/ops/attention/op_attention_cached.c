/* Attention to keys and values as a decoder's cache of codes keeps them (cache_rows.h), so that a
 * model is trained with the keys and values that it decodes with. With k^ and v^, the dequantized
 * rows,
 *     y = softmax(scale q k^^T) v^,  with the bits of op attention_codes
 *     dq, dk^ and dv^ as of op attention at q, k^ and v^;    dk = dk^, dv = dv^
 * the straight-through gradients of rounding [Bengio et al. 2013]. */
#include "ops/attention/attention_call.h"
#include "ops/attention/cache_rows.h"
#include "ops/ops_list.h"

enum { Q = DT__ATTENTION_Q, K = DT__ATTENTION_K, V = DT__ATTENTION_V, OPERANDS };

const char *const dt_cache_names[] = {
    [DT_CACHE_F32] = "f32", [DT_CACHE_INT8] = "int8", [DT_CACHE_INT4] = "int4", [DT_CACHES] = NULL
};

static bool is_packed(const dt_call *c)
{
    return ((const dt_attention_options *)c->options)->cache == DT_CACHE_INT4;
}

/* Bytes of the parts of the scratch memory, each a multiple of the alignment. */
typedef struct parts {
    /* `attention` and `floats` for all threads; `codes`, `scales` and `rows` for k or v each */
    size_t attention, codes, scales, rows, floats;
} parts;

static size_t padded(int64_t n, size_t size) { return dt__scratch_part((size_t)n * size); }

static parts parts_of(const dt_call *c, int64_t attention)
{
    const int64_t *k = c->in[K]->dims, rows = k[0] * k[1] * k[2];
    const size_t size = dt_dtype_size(c->in[K]->dtype);
    return (parts){ .attention = padded(attention, size),
                    .codes = padded(rows * (is_packed(c) ? dt__half_row(k[3]) : k[3]), 1),
                    .scales = padded(rows, size),
                    .rows = padded(dt__cache_rows_room(k[3], dt_threads(c->ctx)), sizeof(float)),
                    .floats = padded(rows * k[3], size) };
}

static dt_status shape(dt_call *c)
{
    const dt_attention_options *o = c->options;
    DT__TRY(dt__want_operands(c, OPERANDS, OPERANDS));
    if (o->cache <= DT_CACHE_F32 || o->cache >= DT_CACHES) {
        return dt_refuse(c, DT_ERR_ARG, "cache is %d; it must be 1 (int8) or 2 (int4)", o->cache);
    }
    DT__TRY(dt__attention_shape(c, DT__WHOLE_ROWS));
    for (int i = K; i <= V; i++) DT__TRY(dt__want_float(c, i));
    const parts n = parts_of(c, 0);
    c->scratch_bytes = dt__scratch_part(c->scratch_bytes) + 2 * (n.codes + n.scales);
    c->scratch_bytes += n.rows;
    return DT_OK;
}

/* Encodes k or v; `to` follows the scratch memory of attention. */
static dt__cache_rows encode(const dt_call *c, int which, const parts *n, uint8_t *to)
{
    const int64_t *k = c->arg[K]->dims;
    const int64_t line = is_packed(c) ? dt__half_row(k[3]) : k[3];
    uint8_t *own = to + n->rows + (which == V ? n->codes + n->scales : 0);
    const dt__cache_rows r = { .batch = k[0],
                               .time = k[1],
                               .heads = k[2],
                               .width = k[3],
                               .dtype = c->arg[K]->dtype,
                               .packed = is_packed(c),
                               .x = dt__heads_of(c->arg[which]),
                               .codes = (int8_t *)own,
                               .code_strides = { k[1] * k[2] * line, k[2] * line, line, 1 },
                               .scale = own + n->codes,
                               .scale_strides = { k[1] * k[2], k[2], 1 },
                               .room = (float *)to };
    dt__cache_rows_encode(dt__kernels_of(c->ctx, DT_F32), &r);
    return r;
}

static dt__heads codes_of(const dt__cache_rows *r)
{
    const int64_t *s = r->code_strides;
    return (dt__heads){ r->codes, { s[0], s[1], s[2], s[3] } };
}

static dt__heads scales_of(const dt__cache_rows *r)
{
    const int64_t *s = r->scale_strides;
    return (dt__heads){ r->scale, { s[0], s[1], s[2] } };
}

static void forward(const dt_call *c)
{
    dt__attention a = dt__attention_of(c);
    const parts n = parts_of(c, dt__attention_room(&a, dt_threads(c->ctx)));
    uint8_t *behind = (uint8_t *)c->scratch + n.attention;
    const dt__cache_rows k = encode(c, K, &n, behind), v = encode(c, V, &n, behind);
    a.k = codes_of(&k);
    a.v = codes_of(&v);
    a.k_scale = scales_of(&k);
    a.v_scale = scales_of(&v);
    a.packed = k.packed;
    c->kernels->attention(&a);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__attention a = dt__attention_of(c);
    const parts n = parts_of(c, dt__attention_back_room(&a, dt_threads(c->ctx)));
    uint8_t *behind = (uint8_t *)c->scratch + n.attention;
    uint8_t *floats = behind + n.rows + 2 * (n.codes + n.scales);
    dt__heads *const to[] = { [K] = &a.k, [V] = &a.v };
    void *d[OPERANDS];
    for (int i = K; i <= V; i++) {
        const dt__cache_rows r = encode(c, i, &n, behind);
        void *y = floats + (i == V ? n.floats : 0);
        dt__cache_rows_decode(c->kernels, &r, y);
        *to[i] = (dt__heads){ y, { r.time * r.heads * r.width, r.heads * r.width, r.width, 1 } };
    }
    for (int i = 0; i < OPERANDS; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->attention_backward(&a, dt__data(dy), d);
}

static size_t scratch(const dt_call *c)
{
    const dt__attention a = dt__attention_of(c);
    const parts n = parts_of(c, dt__attention_back_room(&a, dt_threads(c->ctx)));
    return n.attention + n.rows + 2 * (n.codes + n.scales + n.floats);
}

const dt_op dt__op_attention_cached = {
    .name = "attention_cached",
    .text = "attention to keys k and values v as codes of a decoder's `cache`, with "
            "straight-through gradients",
    .in_name = { "q", "k", "v" },
    .out_name = { "y", "lse" },
    .strided = true,
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE }, .out = { DT_VALUE, DT_VALUE } },
    DT__OP_OPTIONS(dt_attention_options, dt__attention_options, dt__attention_keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

#define INT8 DT__WITH(dt_attention_options, .causal = true, .cache = DT_CACHE_INT8)
#define INT4 DT__WITH(dt_attention_options, .causal = true, .cache = DT_CACHE_INT4)
#define GIVEN(...) .given = true, .values = { __VA_ARGS__ }

/* Scores are ln 3 and 0: p is 3/4 and 1/4; scales are 1 and 2. Gradients are checked in
 * tests/test_attention_cached.c: rounding has none. */
static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 1, 1 }, GIVEN(5, 0.00865049046195362) },
              { { 1, 2, 1, 1 }, GIVEN(127, 0) },
              { { 1, 2, 1, 1 }, GIVEN(127, 254) } },
      .options = INT8, .n_y = 2, .y = { 127, 158.75 }, .rough = true },
    /* k and v times H: (8, 0) and (0, 2); (-8, 4) and (4, 0), of scales -1, -1/4, 1 and -1/2 */
    { "four bits",
      .in = { { { 1, 2, 1, 2 }, GIVEN(0, 0, 0, 0) },
              { { 1, 2, 1, 2 }, GIVEN(4, 4, 1, -1) },
              { { 1, 2, 1, 2 }, GIVEN(-2, -6, 2, 2) } },
      .options = INT4, .n_y = 4, .y = { -2, -6, 0, -2 }, .rough = true },
    { "grouped", .in = { { { 2, 5, 4, 3 } }, { { 2, 5, 2, 3 } }, { { 2, 5, 2, 3 } } },
      .options = INT8, .rough = true },
    { "four bits, grouped", .in = { { { 2, 5, 4, 8 } }, { { 2, 5, 2, 8 } }, { { 2, 5, 2, 8 } } },
      .options = INT4, .rough = true },
    { "four bits, odd", .in = { { { 1, 9, 2, 5 } }, { { 1, 9, 1, 5 } }, { { 1, 9, 1, 5 } } },
      .options = INT4, .rough = true },
    { "one query", .in = { { { 2, 1, 6, 6 } }, { { 2, 9, 2, 6 } }, { { 2, 9, 2, 6 } } },
      .options = INT4, .rough = true },
    { "no queries", .in = { { { 2, 0, 2, 3 } }, { { 2, 4, 2, 3 } }, { { 2, 4, 2, 3 } } },
      .options = INT4 },
    { "no elements", .in = { { { 2, 3, 2, 0 }, 4 }, { { 2, 3, 2, 0 }, 4 }, { { 2, 3, 2, 0 }, 4 } },
      .options = INT8 },
    { "without a cache", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 } } },
      .fails = DT_ERR_ARG, .says = "cache is 0; it must be 1 (int8) or 2 (int4)" },
    { "widths", .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 3 } }, { { 1, 2, 2, 3 } } },
      .options = INT8, .fails = DT_ERR_SHAPE, .says = "k must be [1,2,2,4]" },
    { "integers",
      .in = { { { 1, 2, 2, 4 } }, { { 1, 2, 2, 4 }, .dtype = DT_I32 }, { { 1, 2, 2, 4 } } },
      .options = INT8, .fails = DT_ERR_DTYPE },
};
DT__CASES(attention_cached, cases)
