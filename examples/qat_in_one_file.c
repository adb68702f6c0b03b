/* qat_in_one_file.c: quantization-aware training, whole, in plain C. It uses libc and libm, and
 * nothing of detent; a test trains the library on the same data and finds the same bits.
 *
 *     cc -std=c17 -O2 qat_in_one_file.c -lm && ./a.out [seed [inputs [hidden [outputs]]]]
 *
 * A network of two linear layers is trained in float, then with int4 weights and int8 activations,
 * and is packed:
 *
 *                 float steps           steps of QAT              packed
 *     weight      the master            codes of the master       codes, two in a byte
 *     activation  float                 codes, by a hook          codes, by the same function
 *     product     of floats             of integers               of integers, the same function
 *     gradient    of the product        as if rounding were       none
 *                                       the identity
 *
 * Rounding is to nearest, halves to even (rintf). Every sum has one order, which is written beside
 * it: with another order the last bits differ. fmaf(a, b, c) is a b + c, rounded once. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* a * b + c stays two roundings, as in gcc with -std=c17 */
#endif

#define GROUP 32        /* weights of a row that share a scale */
#define WEIGHT_MIN (-8) /* int4 */
#define WEIGHT_MAX 7
#define WEIGHT_LEAST_SCALE 0x1p-126f /* the smallest normal float: a group of zeros has it */
#define INPUT_MIN (-128)             /* int8 */
#define INPUT_MAX 127
#define INPUT_LEAST_SCALE 0x1p-23f
#define TO_UNSIGNED 128 /* products read int8 + 128, 0 ... 255 */
#define LAYERS 2
#define MOST_NODES 16 /* of a tape */

/* ---- memory: a program may end where a library returns an error ------------------------------ */

static void *zeros(int64_t count, size_t size)
{
    void *p = calloc((size_t)(count > 0 ? count : 1), size);
    if (p != NULL) return p;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static float *floats(int64_t count) { return zeros(count, sizeof(float)); }

/* ---- quantization ---------------------------------------------------------------------------- */

/* code = clamp(rne(x / scale), min - zero, max - zero) + zero, x / scale being x * (1 / scale) */
static int8_t encode(float x, float inverse, int zero, int min, int max)
{
    const float q = rintf(x * inverse), low = (float)(min - zero), high = (float)(max - zero);
    return (int8_t)((int)(q < low ? low : q > high ? high : q) + zero);
}

static float decode(int8_t code, int zero, float scale) { return (float)(code - zero) * scale; }

/* Symmetric int4 of a group of weights: scale = max |x| / 7.5, zero point 0. The half step beyond 7
 * gives the codes -8 ... 7 the same range as the values; the largest positive one is clipped. */
static float encode_group(int n, const float *x, int8_t *codes)
{
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    float scale = largest / ((float)(WEIGHT_MAX - WEIGHT_MIN) / 2);
    if (scale < WEIGHT_LEAST_SCALE) scale = WEIGHT_LEAST_SCALE;
    for (int i = 0; i < n; i++) codes[i] = encode(x[i], 1 / scale, 0, WEIGHT_MIN, WEIGHT_MAX);
    return scale;
}

/* A row of an activation as int8, asymmetric and dynamic: its own range, with 0 inside.
 *     scale = (hi - lo) / 255      zero = min(-128 - rne(lo / scale), 127) */
static void encode_row(int n, const float *x, int8_t *codes, float *scale, int *zero)
{
    float lo = 0, hi = 0;
    for (int i = 0; i < n; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    *scale = (hi - lo) / (float)(INPUT_MAX - INPUT_MIN);
    if (*scale < INPUT_LEAST_SCALE) *scale = INPUT_LEAST_SCALE;
    *zero = (int)fminf((float)INPUT_MIN - rintf(lo / *scale), (float)INPUT_MAX);
    for (int i = 0; i < n; i++) codes[i] = encode(x[i], 1 / *scale, *zero, INPUT_MIN, INPUT_MAX);
}

/* Codes of an activation: [rows][columns], a scale and a zero point a row. */
typedef struct row_codes {
    int8_t *codes;
    float *scale;
    int *zero;
} row_codes;

static row_codes encode_rows(int rows, int columns, const float *x)
{
    row_codes r = { zeros(rows * columns, 1), floats(rows), zeros(rows, sizeof(int)) };
    for (int m = 0; m < rows; m++) {
        const int64_t at = (int64_t)m * columns;
        encode_row(columns, x + at, r.codes + at, &r.scale[m], &r.zero[m]);
    }
    return r;
}

static void free_rows(row_codes *r)
{
    free(r->codes);
    free(r->scale);
    free(r->zero);
}

/* ---- parameters and the FakeQuantTensor ------------------------------------------------------ */

typedef struct parameter {
    int count;
    float *value, *gradient, *momentum;
} parameter;

/* A weight [rows][columns] that computes with codes and is trained in float: the optimizer writes
 * `master.value`, products read `codes` and `scale`, which follow from it. */
typedef struct fake_quant_tensor {
    parameter master;
    int rows, columns, groups; /* groups of a row: columns / GROUP, rounded up */
    bool enabled;              /* false: products read the master */
    int8_t *codes;             /* [rows][columns] */
    float *scale;              /* [rows][groups] */
} fake_quant_tensor;

static int group_length(int columns, int group)
{
    const int rest = columns - group * GROUP; /* the last group may be shorter */
    return rest < GROUP ? rest : GROUP;
}

/* The codes of what the master is now. */
static void renew_codes(fake_quant_tensor *w)
{
    for (int n = 0; n < w->rows; n++) {
        for (int g = 0; g < w->groups; g++) {
            const int64_t at = (int64_t)n * w->columns + g * GROUP;
            w->scale[n * w->groups + g] =
                encode_group(group_length(w->columns, g), w->master.value + at, w->codes + at);
        }
    }
}

/* What a product of floats reads: the dequantized weight. */
static float weight_at(const fake_quant_tensor *w, int n, int k)
{
    const int64_t at = (int64_t)n * w->columns + k;
    if (!w->enabled) return w->master.value[at];
    return decode(w->codes[at], 0, w->scale[n * w->groups + k / GROUP]);
}

/* ---- products: y = x W^T + bias -------------------------------------------------------------- */

/* What the integer product reads of a weight. A packed one has two codes in a byte, the first in
 * the low half, each row padded to a byte. */
typedef struct weight_codes {
    int rows, columns, groups;
    int8_t *codes;   /* of a FakeQuantTensor; or NULL, and */
    uint8_t *packed; /* [rows][(columns + 1) / 2] */
    float *scale, *bias;
} weight_codes;

static int code_at(const weight_codes *w, int n, int k)
{
    if (w->codes != NULL) return w->codes[(int64_t)n * w->columns + k];
    const int byte = w->packed[(int64_t)n * ((w->columns + 1) / 2) + k / 2];
    const int half = k % 2 == 0 ? byte & 15 : byte >> 4;
    return half <= WEIGHT_MAX ? half : half - 16;
}

/* A row of integers times row n of the weight. In exact arithmetic
 *     y = s_x (sum_g s_w[g] (sum_{k in g} q_x q_w - z_x sum_{k in g} q_w)) + bias
 * and in this order, with u = q_x + 128:
 *     ksum = 0;                          for each g    ksum = fmaf(s_w[g], sum q_w, ksum)
 *     acc  = -((z_x + 128) * ksum);      for each g    acc  = fmaf(sum u q_w, s_w[g], acc)
 *     y    = s_x * acc;                  y = y + bias
 * The sums over a group are exact integers. */
static float integer_dot(const weight_codes *w, int n, const int8_t *x, float scale, int zero)
{
    const float *s_w = w->scale + (int64_t)n * w->groups;
    float ksum = 0;
    for (int g = 0; g < w->groups; g++) {
        int32_t sum = 0;
        for (int i = 0; i < group_length(w->columns, g); i++) sum += code_at(w, n, g * GROUP + i);
        ksum = fmaf(s_w[g], (float)sum, ksum);
    }
    float acc = -((float)(zero + TO_UNSIGNED) * ksum);
    for (int g = 0; g < w->groups; g++) {
        int32_t sum = 0;
        for (int i = 0; i < group_length(w->columns, g); i++) {
            const int k = g * GROUP + i;
            sum += (x[k] + TO_UNSIGNED) * code_at(w, n, k);
        }
        acc = fmaf((float)sum, s_w[g], acc);
    }
    const float y = scale * acc;
    return y + w->bias[n];
}

static void integer_product(const weight_codes *w, int rows, const row_codes *x, float *y)
{
    for (int m = 0; m < rows; m++) {
        for (int n = 0; n < w->rows; n++) {
            y[m * w->rows + n] =
                integer_dot(w, n, x->codes + (int64_t)m * w->columns, x->scale[m], x->zero[m]);
        }
    }
}

/* Products of floats: acc from 0, terms in ascending order, acc = fmaf(a, b, acc). */
static void float_product(const fake_quant_tensor *w, const float *bias, int rows, const float *x,
                          float *y)
{
    for (int m = 0; m < rows; m++) {
        for (int n = 0; n < w->rows; n++) {
            float acc = 0;
            for (int k = 0; k < w->columns; k++) {
                acc = fmaf(x[m * w->columns + k], weight_at(w, n, k), acc);
            }
            y[m * w->rows + n] = acc + bias[n];
        }
    }
}

/* ---- the tape -------------------------------------------------------------------------------- */

typedef struct layer layer;
typedef struct node node;

/* A result of an operation, and how its gradient becomes that of its operand. One operation reads
 * each node, so gradients are written, not added to. */
struct node {
    int rows, columns;
    float *value, *gradient;
    bool has_codes;  /* of a fake-quantized activation: products read them in place of the value, */
    row_codes codes; /* which is their dequantized one */
    void (*backward)(node *y); /* NULL: data */
    node *in;
    layer *of; /* of a linear node: the layer with its weight */
};

typedef struct tape {
    node node[MOST_NODES]; /* in the order in which they were computed */
    int count;
} tape;

static node *add_node(tape *t, int rows, int columns, void (*backward)(node *y), node *x)
{
    node *y = &t->node[t->count++];
    *y = (node){ .rows = rows, .columns = columns, .backward = backward, .in = x };
    y->value = floats((int64_t)rows * columns);
    y->gradient = floats((int64_t)rows * columns);
    return y;
}

static void reset(tape *t)
{
    for (int i = 0; i < t->count; i++) {
        free(t->node[i].value);
        free(t->node[i].gradient);
        if (t->node[i].has_codes) free_rows(&t->node[i].codes);
    }
    t->count = 0;
}

/* From the last node, whose gradient is set, to the first. */
static void backward(tape *t)
{
    for (int i = t->count - 1; i >= 0; i--) {
        if (t->node[i].backward != NULL) t->node[i].backward(&t->node[i]);
    }
}

static node *data(tape *t, int rows, int columns, const float *x)
{
    node *y = add_node(t, rows, columns, NULL, NULL);
    memcpy(y->value, x, (size_t)(rows * columns) * sizeof *x);
    return y;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* y = max(x, 0)      dx = dy where x > 0, else 0 */
static void relu_backward(node *y)
{
    for (int i = 0; i < y->rows * y->columns; i++) {
        y->in->gradient[i] = y->in->value[i] > 0 ? y->gradient[i] : 0;
    }
}

static node *relu(tape *t, node *x)
{
    node *y = add_node(t, x->rows, x->columns, relu_backward, x);
    for (int i = 0; i < x->rows * x->columns; i++) y->value[i] = x->value[i] > 0 ? x->value[i] : 0;
    return y;
}

/* The straight-through gradient: rounding counts as the identity. */
static void fake_quantize_backward(node *y)
{
    memcpy(y->in->gradient, y->gradient, (size_t)(y->rows * y->columns) * sizeof(float));
}

/* y = the dequantized codes of x */
static node *fake_quantize(tape *t, node *x)
{
    node *y = add_node(t, x->rows, x->columns, fake_quantize_backward, x);
    y->codes = encode_rows(x->rows, x->columns, x->value);
    y->has_codes = true;
    for (int i = 0; i < x->rows * x->columns; i++) {
        const int m = i / x->columns;
        y->value[i] = decode(y->codes.codes[i], y->codes.zero[m], y->codes.scale[m]);
    }
    return y;
}

/* A layer has a hook that runs before its forward, on its input. QAT is this hook, which gives the
 * input codes, and the enabled FakeQuantTensor. */
struct layer {
    fake_quant_tensor weight;
    parameter bias;
    node *(*pre_forward)(tape *t, node *x); /* NULL: none */
};

/* dx[m,k] = sum over n of dy[m,n] w[n,k]      dw[n,k] = sum over m of dy[m,n] x[m,k]
 * from 0, in ascending order, by fmaf; x and w are what the product read: dequantized values.
 * db[n] = sum over m of dy[m,n], in double. The gradient of w is that of its master. */
static void linear_backward(node *y)
{
    node *x = y->in;
    layer *l = y->of;
    const fake_quant_tensor *w = &l->weight;
    for (int m = 0; m < x->rows; m++) {
        for (int k = 0; k < x->columns; k++) {
            float acc = 0;
            for (int n = 0; n < y->columns; n++) {
                acc = fmaf(y->gradient[m * y->columns + n], weight_at(w, n, k), acc);
            }
            x->gradient[m * x->columns + k] = acc;
        }
    }
    for (int n = 0; n < y->columns; n++) {
        for (int k = 0; k < x->columns; k++) {
            float acc = 0;
            for (int m = 0; m < x->rows; m++) {
                const float dy = y->gradient[m * y->columns + n];
                acc = fmaf(dy, x->value[m * x->columns + k], acc);
            }
            w->master.gradient[n * x->columns + k] = acc;
        }
        double sum = 0;
        for (int m = 0; m < x->rows; m++) sum += (double)y->gradient[m * y->columns + n];
        l->bias.gradient[n] = (float)sum;
    }
}

static weight_codes codes_of(const layer *l)
{
    const fake_quant_tensor *w = &l->weight;
    return (
        weight_codes){ w->rows, w->columns, w->groups, w->codes, NULL, w->scale, l->bias.value };
}

/* y = x W^T + bias: of integers where both operands have codes. */
static node *linear(tape *t, layer *l, node *x)
{
    if (l->pre_forward != NULL) x = l->pre_forward(t, x);
    node *y = add_node(t, x->rows, l->weight.rows, linear_backward, x);
    y->of = l;
    if (x->has_codes && l->weight.enabled) {
        const weight_codes w = codes_of(l);
        integer_product(&w, x->rows, &x->codes, y->value);
    } else {
        float_product(&l->weight, l->bias.value, x->rows, x->value, y->value);
    }
    return y;
}

/* Sets the gradient of the mean squared error, 2 (y - target) / n, and returns the error: squares
 * are summed in double in eight lanes, which a tree adds. */
static float mean_square(node *y, const float *target)
{
    const int n = y->rows * y->columns;
    const float factor = (float)(2.0 / n);
    double lane[8] = { 0 };
    for (int i = 0; i < n; i++) {
        const double d = (double)y->value[i] - (double)target[i];
        lane[i % 8] += d * d;
        y->gradient[i] = factor * (y->value[i] - target[i]);
    }
    for (int width = 4; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) lane[i] = lane[2 * i] + lane[2 * i + 1];
    }
    return (float)(lane[0] / n);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

/* Gradient descent with momentum, in place:      b = momentum b + g      p = p - rate b */
static void sgd(parameter *p, float rate, float momentum, bool first)
{
    for (int i = 0; i < p->count; i++) {
        const float g = p->gradient[i];
        const float b = first ? g : momentum * p->momentum[i] + g;
        p->momentum[i] = b;
        p->value[i] -= rate * b;
    }
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A layer to ship: 4 bits a weight, a float a group. */
static weight_codes pack(const layer *l)
{
    const weight_codes from = codes_of(l);
    const int row = (from.columns + 1) / 2;
    weight_codes to = from;
    to.codes = NULL;
    to.packed = zeros(from.rows * row, 1);
    to.scale = floats(from.rows * from.groups);
    to.bias = floats(from.rows);
    for (int i = 0; i < from.rows * from.columns; i++) {
        const int n = i / from.columns, k = i % from.columns;
        const unsigned half = (unsigned)from.codes[i] & 15;
        to.packed[n * row + k / 2] |= (uint8_t)(k % 2 == 0 ? half : half << 4);
    }
    memcpy(to.scale, from.scale, (size_t)(from.rows * from.groups) * sizeof(float));
    memcpy(to.bias, from.bias, (size_t)from.rows * sizeof(float));
    return to;
}

static void free_packed(weight_codes *p)
{
    free(p->packed);
    free(p->scale);
    free(p->bias);
}

/* The forward pass of the packed network: it knows no float weight. */
static void packed_forward(const weight_codes p[LAYERS], int rows, const float *x, float *y)
{
    const int hidden = p[0].rows;
    float *h = floats((int64_t)rows * hidden);
    row_codes codes = encode_rows(rows, p[0].columns, x);
    integer_product(&p[0], rows, &codes, h);
    free_rows(&codes);
    for (int i = 0; i < rows * hidden; i++) h[i] = h[i] > 0 ? h[i] : 0;
    codes = encode_rows(rows, hidden, h);
    integer_product(&p[1], rows, &codes, y);
    free_rows(&codes);
    free(h);
}

/* ---- the network, its data, and the program -------------------------------------------------- */

typedef struct settings {
    uint32_t seed;
    int inputs, hidden, outputs; /* at least 2 outputs and hidden units */
    int examples, batch;         /* batches are taken in order; batch divides examples */
    int float_steps, qat_steps;
    float rate, momentum;
} settings;

typedef struct network {
    layer layer[LAYERS];
    int updates;
} network;

/* Numerical Recipes' generator. The upper 24 bits are uniform in -1 ... 1. */
static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)(*state >> 8) / 0x1p23f - 1;
}

static parameter make_parameter(int count, float bound, uint32_t *state)
{
    parameter p = { count, floats(count), floats(count), floats(count) };
    for (int i = 0; i < count; i++) p.value[i] = bound * draw(state);
    return p;
}

static layer make_layer(int inputs, int outputs, uint32_t *state)
{
    const float bound = 1 / sqrtf((float)inputs);
    const int groups = (inputs + GROUP - 1) / GROUP;
    layer l = { .weight = { .rows = outputs, .columns = inputs, .groups = groups } };
    l.weight.master = make_parameter(outputs * inputs, bound, state);
    l.weight.codes = zeros(outputs * inputs, 1);
    l.weight.scale = floats((int64_t)outputs * groups);
    l.bias = make_parameter(outputs, bound, state);
    return l;
}

static network make_network(const settings *s)
{
    uint32_t state = s->seed;
    const layer first = make_layer(s->inputs, s->hidden, &state);
    return (network){ { first, make_layer(s->hidden, s->outputs, &state) }, 0 };
}

static void free_parameter(parameter *p)
{
    free(p->value);
    free(p->gradient);
    free(p->momentum);
}

static void free_network(network *net)
{
    for (int i = 0; i < LAYERS; i++) {
        free_parameter(&net->layer[i].weight.master);
        free_parameter(&net->layer[i].bias);
        free(net->layer[i].weight.codes);
        free(net->layer[i].weight.scale);
    }
}

/* Inputs are uniform in -1 ... 1, and target j is x[j] x[j+1] + x[j+2] / 2, indices modulo
 * inputs. */
static void draw_examples(const settings *s, float *x, float *target)
{
    uint32_t state = ~s->seed;
    for (int i = 0; i < s->examples * s->inputs; i++) x[i] = draw(&state);
    for (int i = 0; i < s->examples * s->outputs; i++) {
        const float *of = x + (int64_t)(i / s->outputs) * s->inputs;
        const int j = i % s->outputs;
        target[i] = of[j % s->inputs] * of[(j + 1) % s->inputs] + of[(j + 2) % s->inputs] / 2;
    }
}

static node *forward(tape *t, network *net, node *x)
{
    return linear(t, &net->layer[1], relu(t, linear(t, &net->layer[0], x)));
}

/* From here on the network computes with integers. */
static void prepare(network *net)
{
    for (int i = 0; i < LAYERS; i++) {
        net->layer[i].weight.enabled = true;
        net->layer[i].pre_forward = fake_quantize;
        renew_codes(&net->layer[i].weight);
    }
}

/* One update; returns the loss before it. The optimizer knows parameters alone, and whoever writes
 * a master renews its codes. */
static float train_step(network *net, const settings *s, const float *x, const float *target)
{
    tape t = { .count = 0 };
    const int batch = net->updates % (s->examples / s->batch);
    const float *from = x + (int64_t)batch * s->batch * s->inputs;
    node *y = forward(&t, net, data(&t, s->batch, s->inputs, from));
    const float loss = mean_square(y, target + (int64_t)batch * s->batch * s->outputs);
    backward(&t);
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &net->layer[i];
        sgd(&l->weight.master, s->rate, s->momentum, net->updates == 0);
        sgd(&l->bias, s->rate, s->momentum, net->updates == 0);
        if (l->weight.enabled) renew_codes(&l->weight);
    }
    net->updates++;
    reset(&t);
    return loss;
}

/* The outputs of all examples; returns their loss. */
static float evaluate(network *net, const settings *s, const float *x, const float *target,
                      float *y)
{
    tape t = { .count = 0 };
    node *out = forward(&t, net, data(&t, s->examples, s->inputs, x));
    const float loss = mean_square(out, target);
    memcpy(y, out->value, (size_t)(s->examples * s->outputs) * sizeof *y);
    reset(&t);
    return loss;
}

static bool packed_is_equal(const network *net, const settings *s, const float *x, const float *y)
{
    weight_codes p[LAYERS];
    const int64_t count = (int64_t)s->examples * s->outputs;
    float *of_packed = floats(count);
    for (int i = 0; i < LAYERS; i++) p[i] = pack(&net->layer[i]);
    packed_forward(p, s->examples, x, of_packed);
    const bool equal = memcmp(of_packed, y, (size_t)count * sizeof *y) == 0;
    for (int i = 0; i < LAYERS; i++) free_packed(&p[i]);
    free(of_packed);
    return equal;
}

int main(int argc, char **argv)
{
    settings s = { 1, 72, 40, 4, 512, 32, 400, 200, 0.05f, 0.9f };
    char none[] = "", *end = none;
    if (argc > 1) s.seed = (uint32_t)strtoul(argv[1], &end, 10);
    if (argc > 5 || *end != 0) {
        fprintf(stderr, "usage: %s [seed [inputs [hidden [outputs]]]], all numbers\n", argv[0]);
        return 2;
    }
    int *const sizes[] = { &s.inputs, &s.hidden, &s.outputs };
    for (int i = 0; i < 3 && i + 2 < argc; i++) {
        const long size = strtol(argv[i + 2], &end, 10);
        if (*end != 0 || size < 2 || size > 1024) {
            fprintf(stderr, "a size must be a number in 2 ... 1024, not '%s'\n", argv[i + 2]);
            return 2;
        }
        *sizes[i] = (int)size;
    }
    float *x = floats((int64_t)s.examples * s.inputs);
    float *target = floats((int64_t)s.examples * s.outputs);
    float *y = floats((int64_t)s.examples * s.outputs);
    network net = make_network(&s);
    draw_examples(&s, x, target);
    for (int i = 0; i < s.float_steps; i++) train_step(&net, &s, x, target);
    printf("float:  loss %.6f\n", (double)evaluate(&net, &s, x, target, y));
    prepare(&net);
    printf("int4:   loss %.6f, rounded\n", (double)evaluate(&net, &s, x, target, y));
    for (int i = 0; i < s.qat_steps; i++) train_step(&net, &s, x, target);
    printf("int4:   loss %.6f, trained\n", (double)evaluate(&net, &s, x, target, y));
    const bool equal = packed_is_equal(&net, &s, x, y);
    printf("packed: %s bits\n", equal ? "the same" : "other");
    free_network(&net);
    free(x);
    free(target);
    free(y);
    return equal ? 0 : 1;
}
