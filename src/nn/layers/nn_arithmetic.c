/* Arithmetic on several inputs, element by element with broadcasting; comparisons; the matrix
 * product. */
#include "nn/layers/op_layer.h"

typedef dt_tensor *two_function(dt_tape *t, dt_tensor *a, dt_tensor *b);

/* f(f(x0, x1), x2) ... */
static dt_tensor *chain(dt_tape *t, two_function *f, dt_tensor *const *in, int n_in)
{
    dt_tensor *y = in[0];
    for (int i = 1; i < n_in; i++) y = i == 1 ? f(t, y, in[i]) : dt__then(t, y, f(t, y, in[i]));
    return y;
}

/* min(a, b) = -max(-a, -b), which is exact */
static dt_tensor *minimum(dt_tape *t, dt_tensor *a, dt_tensor *b)
{
    return dt_neg(t, dt_maximum(t, dt_neg(t, a), dt_neg(t, b)));
}

static dt_tensor *equal(dt_tape *t, dt_tensor *a, dt_tensor *b)
{
    return dt_mul(t, dt_greater(t, a, b, true), dt_greater(t, b, a, true));
}

#define CHAIN(kind, function)                                                                      \
    static dt_tensor *kind##_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)   \
    {                                                                                              \
        (void)options;                                                                             \
        return chain(t, function, in, n_in);                                                       \
    }
CHAIN(add, dt_add)
CHAIN(sub, dt_sub)
CHAIN(mul, dt_mul)
CHAIN(div, dt_div)
CHAIN(maximum, dt_maximum)
CHAIN(minimum, minimum)
CHAIN(equal, equal)

static dt_tensor *greater_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)n_in;
    return dt_greater(t, in[0], in[1], ((const dt_operands_layer *)options)->equal);
}

static dt_tensor *where_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)options;
    (void)n_in;
    return dt_where(t, in[0], in[1], in[2]);
}

static dt_tensor *matmul_of(dt_tape *t, const void *options, dt_tensor *const *in, int n_in)
{
    (void)options;
    (void)n_in;
    if (in[0]->rank > 2 || in[1]->rank > 2) return dt_matmul(t, in[0], in[1]);
    dt_tape_fail(t, DT_ERR_SHAPE, "matmul: an example must be a matrix, not one row");
    return NULL;
}

#define AT(field) .offset = offsetof(dt_operands_layer, field)
#define CONSTANT(field, which)                                                                     \
    {                                                                                              \
#field, DT_KEY_INTS, AT(operands.field),                                                   \
            .least = 1, .most = 1 << 24, .fallback = "[]",                                         \
            .text = "shape of a constant " which " operand that broadcasts; none: a layer"         \
    }
#define TRAINED                                                                                    \
    {                                                                                              \
        "trained", DT_KEY_BOOL, AT(operands.trained), .fallback = "false",                         \
                                                      .text = "the constants are parameters"       \
    }
#define TWO_KEYS(kind)                                                                             \
    DT__LAYER_HEAD(#kind, dt_operands_layer), CONSTANT(first, "first"), CONSTANT(second, "second")

#define OPERANDS(number)                                                                           \
    .operands = number, .joins = true, .constants = offsetof(dt_operands_layer, operands)

#define TWO(kind, about, most, number)                                                             \
    static const dt_key kind##_keys[] = { TWO_KEYS(kind), TRAINED, { 0 } };                        \
    DT__OP_LAYER(kind, about, dt_operands_layer, kind##_keys, 1, most, .apply = kind##_of,         \
                 OPERANDS(number))

DT__PLAIN_OP_LAYER(add, "sum of its inputs, broadcast", 2, 16, .apply = add_of, .joins = true);
DT__PLAIN_OP_LAYER(sub, "first input minus the second, broadcast", 2, 2, .apply = sub_of,
                   .operands = 2, .joins = true);
DT__PLAIN_OP_LAYER(mul, "product of its inputs, broadcast: a gate [channels, 1, 1] scales channels",
                   2, 16, .apply = mul_of, .joins = true);
TWO(div, "first operand divided by the second, broadcast", 2, 2);
TWO(maximum, "the largest of its operands, element by element, broadcast", 14, 0);
TWO(minimum, "the smallest of its operands, element by element, broadcast", 14, 0);
TWO(equal, "1 where both operands are equal, else 0; derivative 0", 2, 2);
TWO(matmul, "matrix product of the last two dimensions", 2, 2);

static const dt_key greater_keys[] = {
    TWO_KEYS(greater),
    TRAINED,
    { "equal", DT_KEY_BOOL, AT(equal), .fallback = "false", .text = "1 also where both are equal" },
    { 0 },
};
DT__OP_LAYER(greater, "1 where the first operand is above the second, else 0; derivative 0",
             dt_operands_layer, greater_keys, 1, 2, .apply = greater_of, OPERANDS(2));

static const dt_key where_keys[] = { TWO_KEYS(where), CONSTANT(third, "third"), TRAINED, { 0 } };
DT__OP_LAYER(where, "the second operand where the first is above 0, else the third",
             dt_operands_layer, where_keys, 1, 3, .apply = where_of, OPERANDS(3));

static const dt_plain_layer plain = { .head.name = NULL };

dt_status dt_add_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__op_layer_create(ctx, &add_op, &plain, out);
}

dt_status dt_sub_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__op_layer_create(ctx, &sub_op, &plain, out);
}

dt_status dt_mul_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    return dt__op_layer_create(ctx, &mul_op, &plain, out);
}

#define OPERATION(name, kind, ...) DT__OP_MAKE(name, kind, dt_operands_layer, __VA_ARGS__)
#define EQUAL .equal = true
#define FIRST(...) .operands.first = { __VA_ARGS__ }
#define SECOND(...) .operands.second = { __VA_ARGS__ }
#define THIRD(...) .operands.third = { __VA_ARGS__ }
OPERATION(div, div, .equal = false)
OPERATION(inverse, div, FIRST(1, { 1 }))
OPERATION(divided, div, SECOND(2, { 2, 1 }), .operands.trained = true)
OPERATION(maximum, maximum, .equal = false)
OPERATION(floored, maximum, SECOND(1, { 3 }))
OPERATION(minimum, minimum, .equal = false)
OPERATION(greater, greater, .equal = false)
OPERATION(not_less, greater, EQUAL, SECOND(1, { 1 }))
OPERATION(equal, equal, .equal = false)
OPERATION(where, where, .equal = false)
OPERATION(masked, where, SECOND(1, { 1 }))
OPERATION(matmul, matmul, .equal = false)
OPERATION(mixed, matmul, FIRST(2, { 2, 3 }))
OPERATION(wide, div, SECOND(3, { 1, 2, 3 }))
OPERATION(long, div, SECOND(8, { 1, 1, 1, 1, 1, 1, 1, 1 }))
OPERATION(empty, div, SECOND(1, { 0 }))

static const dt__layer_case cases[] = {
    { "add", dt_add_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 2, 1 }, .given = true, .values = { 2, -1 } } },
      .n_y = 4, .y = { 3, 4, 2, 3 } },
    { "add a batch", dt_add_create, .in = { { { 3, 2, 5 } }, { { 3, 2, 5 } } } },
    { "add of three", dt_add_create, .in = { { { 3, 5 } }, { { 3, 1 } }, { { 3, 5 } } } },
    { "add of shapes that do not join", dt_add_create, .in = { { { 2, 3 } }, { { 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "add" },
    { "add of other ranks", dt_add_create, .in = { { { 2, 3 } }, { { 2, 2, 3 } } },
      .fails = DT_ERR_SHAPE, .says = "add: inputs of 2 and 3 dimensions" },
    { "sub", dt_sub_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 2, 1 }, .given = true, .values = { 2, -1 } } },
      .n_y = 4, .y = { -1, 0, 4, 5 } },
    { "sub a batch", dt_sub_create, .in = { { { 3, 2, 5 } }, { { 3, 2, 5 } } } },
    { "sub of one", dt_sub_create, .in = { { { 2, 3 } } }, .fails = DT_ERR_ARG,
      .says = "sub: expected 2 inputs, not 1" },
    { "sub of shapes that do not join", dt_sub_create, .in = { { { 2, 3 } }, { { 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "sub" },
    { "mul", dt_mul_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 2, 1 }, .given = true, .values = { 2, -1 } } },
      .n_y = 4, .y = { 2, 4, -3, -4 } },
    { "mul a batch", dt_mul_create, .in = { { { 3, 2, 5 } }, { { 3, 2, 5 } } } },
    { "mul of shapes that do not join", dt_mul_create, .in = { { { 2, 3 } }, { { 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "mul" },
    { "div", made_div_div,
      .in = { { { 1, 2 }, .given = true, .values = { 1, 3 } },
              { { 1, 2 }, .given = true, .values = { 4, -2 } } },
      .n_y = 2, .y = { 0.25, -1.5 } },
    { "a constant divided", made_div_inverse, .in = { { { 2, 3 }, .low = 0.5, .high = 2 } },
      .state = "!first", .given = { { "first", { 3 } } }, .fixed = true },
    { "by a parameter", made_div_divided, .in = { { { 2, 2, 3 } } }, .state = "second",
      .given = { { "second", { 2, -4 } } } },
    { "maximum", made_maximum_maximum,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 2, -3 } },
              { { 1, 3 }, .given = true, .values = { 4, -2, -5 } } },
      .n_y = 3, .y = { 4, 2, -3 } },
    { "maximum of three", made_maximum_maximum,
      .in = { { { 2, 4 } }, { { 2, 1 } }, { { 2, 4 } } } },
    { "maximum of a constant", made_maximum_floored,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 2, -3 } } }, .state = "!second",
      .given = { { "second", { 0, 3, -4 } } }, .n_y = 3, .y = { 1, 3, -3 }, .fixed = true },
    { "minimum", made_minimum_minimum,
      .in = { { { 1, 4 }, .given = true, .values = { 1, 2, -3, DT__NAN } },
              { { 1, 4 }, .given = true, .values = { 4, -2, -5, 1 } } },
      .n_y = 4, .y = { 1, -2, -5, DT__NAN }, .rough = true },
    { "minimum of three", made_minimum_minimum,
      .in = { { { 2, 4 } }, { { 2, 1 } }, { { 2, 4 } } } },
    { "greater", made_greater_greater,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 2, 3 } },
              { { 1, 3 }, .given = true, .values = { 1, 3, -5 } } },
      .n_y = 3, .y = { 0, 0, 1 }, .rough = true },
    { "not less", made_greater_not_less,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 2, 3 } } }, .state = "!second",
      .given = { { "second", { 2 } } }, .n_y = 3, .y = { 0, 1, 1 }, .fixed = true, .rough = true },
    { "equal", made_equal_equal,
      .in = { { { 1, 3 }, .given = true, .values = { 1, DT__NAN, 3 } },
              { { 1, 3 }, .given = true, .values = { 1, DT__NAN, -5 } } },
      .n_y = 3, .y = { 1, 0, 0 }, .rough = true },
    { "where", made_where_where,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 0, -1 } },
              { { 1, 3 }, .given = true, .values = { 1, 2, 3 } },
              { { 1, 3 }, .given = true, .values = { 4, 5, 6 } } },
      .n_y = 3, .y = { 1, 5, 6 }, .rough = true },
    { "a constant where", made_where_masked,
      .in = { { { 1, 3 }, .given = true, .values = { 1, 0, -1 } },
              { { 1, 3 }, .given = true, .values = { 4, 5, 6 } } },
      .state = "!second", .given = { { "second", { -100 } } }, .n_y = 3, .y = { -100, 5, 6 },
      .fixed = true, .rough = true },
    { "matmul", made_matmul_matmul,
      .in = { { { 1, 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 2, 2 }, .given = true, .values = { 3, 4, 5, 6 } } },
      .n_y = 2, .y = { 13, 16 } },
    { "matmul of a batch", made_matmul_matmul, .in = { { { 2, 3, 4 } }, { { 2, 4, 2 } } } },
    { "a constant matrix", made_matmul_mixed, .in = { { { 2, 3, 4 } } }, .state = "!first",
      .given = { { "first", { 1, 2, 3, -1, 0, 1 } } }, .fixed = true },
    { "matmul over the batch", made_matmul_matmul, .in = { { { 2, 2 } }, { { 2, 2 } } },
      .fails = DT_ERR_SHAPE, .says = "must be a matrix" },
    { "a constant of the batch", made_div_wide, .in = { { { 2, 2, 3 } } }, .state = "!second",
      .fails = DT_ERR_SHAPE, .says = "`second` has 3 dimensions; an example has 2" },
    { "a long constant", made_div_long, .fails = DT_ERR_ARG, .says = "8 extents" },
    { "an empty constant", made_div_empty, .fails = DT_ERR_ARG, .says = "div: an extent" },
};
DT__OP_LAYER_CASES(arithmetic, cases)
