/* Convolutions on codes.
 *
 *     both operands have codes for an integer product    y by numerics §2 (qconv.h)
 *     else                                               y = conv(x^, w^) + b, fp32
 *     backward                                           dx = conv^T(dy, w^)   dw of x^, dy
 *
 * x^ and w^ are the dequantized values. w^ is written to scratch as a whole. x^ is a source of the
 * float convolution: each thread dequantizes the part that it is about to multiply. */
#include "ops/convolution/conv_codes.h"

#include "kernels/convolution/qconv.h"

enum { X = DT__CONV_X, WEIGHT = DT__CONV_WEIGHT, BIAS = DT__CONV_BIAS };

bool dt__conv_takes_codes(const dt_call *c, int i)
{
    const dt_tensor *x = c->in[i];
    const dt__codes *codes = c->codes[i];
    if (i == X) {
        const bool samples = x->rank > 0 && codes->rows == x->dims[0] && codes->groups == 1;
        return codes->u != NULL && samples && codes->rows * codes->columns == x->count;
    }
    const int64_t groups = ((const dt_conv_options *)c->options)->groups;
    const bool ours = codes->order == NULL || codes->layout.order_rows * groups == codes->rows;
    return codes->panels != NULL && ours &&
           codes->map.groups == (dt__conv_is_transposed(c) ? groups : 0);
}

/* Bytes at the front of scratch for unpacking codes of x, a slice of the batch at a time. */
static size_t unpacked_bytes(const dt_call *c)
{
    return dt__scratch_part(dt__codes_room(c->codes[X]));
}

static dt__qconv qconv_of(const dt_call *c, const dt__conv *p)
{
    const dt__codes *x = c->codes[X], *w = c->codes[WEIGHT];
    return (dt__qconv){ .conv = p,
                        .transposed = dt__conv_is_transposed(c),
                        .layout = &w->layout,
                        .panels = w->panels,
                        .ldu = dt__codes_byte_stride(x),
                        .sx = x->scale,
                        .zu = x->zero_u,
                        .threads = dt_threads(c->ctx),
                        /* no scratch yet: nothing is unpacked */
                        .scratch =
                            c->scratch == NULL ? NULL : (char *)c->scratch + unpacked_bytes(c) };
}

static bool is_integer_product(const dt_call *c)
{
    return dt__codes_multiply(c->codes[X], c->codes[WEIGHT]);
}

/* Parts of scratch, in floats: w^; its rows before reordering, if needed; then the kernel's own. */
typedef struct room {
    int64_t weight, rows;
} room;

static room room_of(const dt_call *c, bool weight)
{
    const dt__codes *codes = c->codes[WEIGHT];
    if (!weight || codes == NULL) return (room){ 0, 0 };
    const int64_t count = dt__round_up(c->arg[WEIGHT]->count, DT__ALIGNMENT);
    return (room){ count, dt__is_mapped(&codes->map) ? count : 0 };
}

static const float *dequantized_weight(const dt_call *c, const room *r)
{
    const dt__codes *codes = c->codes[WEIGHT];
    if (codes == NULL) return dt__data(c->arg[WEIGHT]);
    float *weight = c->scratch, *rows = r->rows > 0 ? weight + r->weight : weight;
    dt__codes_expand_all(codes, rows);
    if (r->rows > 0) dt__rows_scatter(&codes->map, rows, weight);
    return weight;
}

static void expand(const void *codes, const dt__patch *block) { dt__codes_expand(codes, block); }

/* The arguments of a float convolution of dequantized values, with the structs that they point
 * to. */
typedef struct codes_work {
    dt__conv conv;
    dt__source x;
    dt__conv_work w;
    room room;
} codes_work;

/* Sets all arguments but w^: x as a value or as a source, dy (NULL in forward), and the results; a
 * result that is NULL is not computed. */
static void make_work(const dt_call *c, const float *dy, float *y, float *dx, float *dw,
                      codes_work *k)
{
    const bool transposed = dt__conv_is_transposed(c);
    const float *x = dt__data(c->arg[X]);
    *k = (codes_work){ .conv = dt__conv_of(c), .x = { expand, c->codes[X] } };
    const dt__source *source = c->codes[X] != NULL ? &k->x : NULL;
    k->room = room_of(c, y != NULL || dx != NULL);
    k->w = (dt__conv_work){ .conv = &k->conv,
                            .x = transposed ? dy : x,
                            .y = transposed ? x : dy,
                            .x_source = transposed ? NULL : source,
                            .y_source = transposed ? source : NULL,
                            .to_x = transposed ? y : dx,
                            .to_y = transposed ? dx : y,
                            .to_w = dw,
                            .x_halves = c->halves[X],
                            .ordered = y != NULL && c->tape->no_grad,
                            .products = c->products };
    if (y != NULL && c->arg[BIAS] != NULL) k->w.bias = dt__data(c->arg[BIAS]);
    if (c->scratch != NULL) k->w.scratch = (float *)c->scratch + k->room.weight + k->room.rows;
}

static dt_status scratch_of(const dt_call *c, const codes_work *k, size_t *bytes)
{
    DT__TRY(dt__conv_plan(c->ctx, c->kernels, &k->w, bytes));
    *bytes += (size_t)(k->room.weight + k->room.rows) * sizeof(float);
    return DT_OK;
}

dt_status dt__conv_codes_backward_plan(const dt_call *c, size_t *bytes)
{
    float any = 0; /* the plan only tests which pointers are NULL */
    codes_work k;
    *bytes = 0;
    const bool x = c->wants[X] && !dt__conv_integer_x(c);
    const bool w = c->wants[WEIGHT] && !dt__conv_integer_w(c);
    if (x || w) {
        make_work(c, &any, NULL, x ? &any : NULL, w ? &any : NULL, &k);
        DT__TRY(scratch_of(c, &k, bytes));
    }
    const size_t integers = dt__conv_integer_scratch(c);
    if (integers > *bytes) *bytes = integers;
    return DT_OK;
}

dt_status dt__conv_codes_plan(dt_call *c)
{
    size_t later;
    if (c->recording) DT__TRY(dt__conv_codes_backward_plan(c, &later));
    if (is_integer_product(c)) {
        dt__conv p = dt__conv_of(c);
        p.batch = dt__codes_slice(c->codes[X]);
        const dt__qconv q = qconv_of(c, &p);
        c->scratch_bytes = dt__qconv_scratch(&q) + unpacked_bytes(c);
        return DT_OK;
    }
    codes_work k;
    make_work(c, NULL, dt__data_mut(c->y), NULL, NULL, &k);
    return scratch_of(c, &k, &c->scratch_bytes);
}

static void run_integer_product(const dt_call *c)
{
    const dt__codes *x = c->codes[X];
    const int64_t slice = dt__codes_slice(x), sample = c->y->count / dt__max_i64(1, x->rows);
    for (int64_t n = 0; n < x->rows; n += slice) {
        dt__conv p = dt__conv_of(c);
        p.batch = dt__min_i64(slice, x->rows - n);
        dt__qconv q = qconv_of(c, &p);
        q.u = dt__codes_bytes(x, n, p.batch, c->scratch);
        q.sx += n;
        q.zu += n;
        q.bias = c->arg[BIAS] != NULL ? dt__data(c->arg[BIAS]) : NULL;
        q.y = (float *)dt__data_mut(c->y) + n * sample;
        dt__qconv_run(c->kernels, &q);
    }
}

void dt__conv_forward_codes(const dt_call *c)
{
    if (!is_integer_product(c)) {
        codes_work k;
        make_work(c, NULL, dt__data_mut(c->y), NULL, NULL, &k);
        k.w.w = dequantized_weight(c, &k.room);
        dt__conv_compute(c->ctx, c->kernels, &k.w);
        return;
    }
    run_integer_product(c);
}

size_t dt__conv_codes_backward_scratch(const dt_call *c)
{
    size_t bytes;
    dt__conv_codes_backward_plan(c, &bytes);
    return bytes;
}

void dt__conv_backward_codes(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    codes_work k;
    float *to_x = dx[X] != NULL ? dt__data_mut(dx[X]) : NULL;
    float *to_w = dx[WEIGHT] != NULL ? dt__data_mut(dx[WEIGHT]) : NULL;
    if (to_x != NULL && dt__conv_integer_x(c)) {
        dt__conv_integer_backward_x(c, dt__data(dy), to_x);
        to_x = NULL;
    }
    if (to_w != NULL && dt__conv_integer_w(c)) {
        dt__conv_integer_backward_w(c, dt__data(dy), to_w);
        to_w = NULL;
    }
    if (to_x == NULL && to_w == NULL) return;
    make_work(c, dt__data(dy), NULL, to_x, to_w, &k);
    if (to_x != NULL) k.w.w = dequantized_weight(c, &k.room);
    dt__conv_compute(c->ctx, c->kernels, &k.w);
}
