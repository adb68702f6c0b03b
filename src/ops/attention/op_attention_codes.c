/* Attention to keys and values that are codes with one scale per key and head, as in a decoder's
 * cache (docs/numerics.md §2): int8, or 4 bits of rotated rows, packed as in dt__attention.
 *     s = scale (q codes_k^T) scale_k      p = softmax(s)      y = (p scale_v) codes_v
 * Sums have the same order of terms as in op_attention.c. The op has no gradient. */
#include "ops/attention/attention_call.h"
#include "ops/ops_list.h"

enum { Q = DT__ATTENTION_Q, K = DT__ATTENTION_K, V = DT__ATTENTION_V, K_SCALE, V_SCALE, OPERANDS };

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, OPERANDS, OPERANDS));
    DT__TRY(dt__attention_floats(c));
    const bool packed = c->in[K]->dtype == DT_U8;
    for (int i = K; i <= V; i++) DT__TRY(dt__want_dtype(c, i, packed ? DT_U8 : DT_I8));
    DT__TRY(dt__attention_shape(c, packed ? DT__HALF_ROWS : DT__WHOLE_ROWS));
    const int64_t *k = c->in[K]->dims;
    for (int i = K_SCALE; i <= V_SCALE; i++) {
        DT__TRY(dt__want_dtype(c, i, c->in[Q]->dtype));
        DT__TRY(dt__want_dims(c, i, 3, k));
    }
    return DT_OK;
}

static void forward(const dt_call *c)
{
    dt__attention a = dt__attention_of(c);
    a.k_scale = dt__heads_of(c->arg[K_SCALE]);
    a.v_scale = dt__heads_of(c->arg[V_SCALE]);
    a.packed = c->arg[K]->dtype == DT_U8;
    c->kernels->attention(&a);
}

const dt_op dt__op_attention_codes = {
    .name = "attention_codes",
    .text = "attention to keys k k_scale and values v v_scale: int8 codes, a scale for each key "
            "and head; or u8, two codes of 4 bits, of rows times a Hadamard matrix",
    .in_name = { "q", "k", "v", "k_scale", "v_scale" },
    .out_name = { "y", "lse" },
    .strided = true,
    DT__OP_OPTIONS(dt_attention_options, dt__attention_options, dt__attention_keys),
    .shape = shape,
    .forward = forward,
};

#define CODES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__, .low = -127, .high = 128, .dtype = DT_I8                                      \
    }
#define BYTES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__, .low = 0, .high = 256, .dtype = DT_U8                                         \
    }
#define GIVEN(...) .given = true, .values = { __VA_ARGS__ }

/* Scores are ln 3 and 0: p is 3/4 and 1/4. */
static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 1, 1 }, GIVEN(5, 1.0986122886681098) },
              CODES({ 1, 2, 1, 1 }, GIVEN(-2, 0)),
              CODES({ 1, 2, 1, 1 }, GIVEN(16, -64)),
              { { 1, 2, 1 }, GIVEN(-0.5, 3) },
              { { 1, 2, 1 }, GIVEN(0.25, -0.125) } },
      .n_y = 2, .y = { 4, 5 } },
    { "grouped", .in = { { { 2, 5, 4, 3 } },
                         CODES({ 2, 5, 2, 3 }),
                         CODES({ 2, 5, 2, 3 }),
                         { { 2, 5, 2 } },
                         { { 2, 5, 2 } } } },
    { "one query", .in = { { { 1, 1, 6, 16 } },
                           CODES({ 1, 70, 2, 16 }),
                           CODES({ 1, 70, 2, 16 }),
                           { { 1, 70, 2 } },
                           { { 1, 70, 2 } } } },
    { "four bits", /* H q = (2, 2), of k (7, 0) and (-8, 0), of v (4, 0) and (0, 4); order 2 */
      .in = { { { 1, 1, 1, 2 }, GIVEN(2, 0) },
              BYTES({ 1, 2, 1, 1 }, GIVEN(0x07, 0x08)),
              BYTES({ 1, 2, 1, 1 }, GIVEN(0x04, 0x40)),
              { { 1, 2, 1 }, GIVEN(0, 0) },
              { { 1, 2, 1 }, GIVEN(1, 0.5) } },
      .n_y = 2, .y = { 1.5, 0.5 } },
    { "four bits, grouped", .in = { { { 2, 5, 4, 6 } },
                                    BYTES({ 2, 5, 2, 3 }),
                                    BYTES({ 2, 5, 2, 3 }),
                                    { { 2, 5, 2 } },
                                    { { 2, 5, 2 } } } },
    { "four bits, odd", .in = { { { 1, 70, 1, 5 } },
                                BYTES({ 1, 70, 1, 3 }),
                                BYTES({ 1, 70, 1, 3 }),
                                { { 1, 70, 1 } },
                                { { 1, 70, 1 } } } },
    { "four bits of whole rows",
      .in = { { { 1, 2, 1, 4 } },
              BYTES({ 1, 2, 1, 4 }),
              BYTES({ 1, 2, 1, 4 }),
              { { 1, 2, 1 } },
              { { 1, 2, 1 } } },
      .fails = DT_ERR_SHAPE, .says = "k must be [1,2,1,2]" },
    { "codes of two widths",
      .in = { { { 1, 2, 1, 2 } },
              BYTES({ 1, 2, 1, 1 }),
              CODES({ 1, 2, 1, 1 }),
              { { 1, 2, 1 } },
              { { 1, 2, 1 } } },
      .fails = DT_ERR_DTYPE, .says = "v must be u8" },
    { "no queries", .in = { { { 2, 0, 2, 3 } },
                            CODES({ 2, 4, 2, 3 }),
                            CODES({ 2, 4, 2, 3 }),
                            { { 2, 4, 2 } },
                            { { 2, 4, 2 } } } },
    { "floats",
      .in = { { { 1, 2, 1, 1 } },
              { { 1, 2, 1, 1 } },
              CODES({ 1, 2, 1, 1 }),
              { { 1, 2, 1 } },
              { { 1, 2, 1 } } },
      .fails = DT_ERR_DTYPE, .says = "k must be i8" },
    { "scales' shape",
      .in = { { { 1, 2, 2, 4 } },
              CODES({ 1, 2, 2, 4 }),
              CODES({ 1, 2, 2, 4 }),
              { { 1, 2, 2 } },
              { { 1, 2, 1 } } },
      .fails = DT_ERR_SHAPE, .says = "v_scale must be [1,2,2]" },
    { "values' shape",
      .in = { { { 1, 2, 2, 4 } },
              CODES({ 1, 2, 2, 4 }),
              CODES({ 1, 3, 2, 4 }),
              { { 1, 2, 2 } },
              { { 1, 2, 2 } } },
      .fails = DT_ERR_SHAPE, .says = "v must be [1,2,2,4]" },
};
DT__CASES(attention_codes, cases)
