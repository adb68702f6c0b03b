/* Instructions of a call on a Cortex-M4, of C compiled by arm-none-eabi-gcc -O2 with DSP
 * instructions: a sum over kinds of work, each with its price,
 *     instructions = sum of count[kind] * price[kind]
 * Prices were fitted (least squares of relative errors) to an emulator's counts; docs/device.md has
 * the errors. */
#include "core/text/row_named.h"
#include "export/c/c_program.h"

#include "export/c/c_views.h"
#include "qat/quantized.h"

#include <string.h>

enum { X, WEIGHT };

/* Kinds of work; an element is a number that is read or written. */
typedef enum kind {
    CALL,     /* overhead of a call */
    DOT8,     /* four products of int8 codes */
    DOT4,     /* four products with int4 weights */
    RESCALED, /* an output that is requantized */
    PATCH,    /* an element that a convolution gathers */
    GATHER,   /* overhead of gathering a group for an output position */
    DEPTH8,   /* a product of a depthwise convolution of int8 weights */
    DEPTH4,   /* likewise of int4 weights */
    PAIRED,   /* an element of an addition or multiplication of two results */
    MOVED,    /* an element that is copied */
    CODED,    /* a float that is quantized */
    RANGED,   /* a float in the computation of a dynamic range */
    GROUPED,  /* a group of columns with its own scale, per output */
    POOL,     /* an element of a pool's window */
    MIXED8,   /* a product of int8 codes with float results */
    MIXED4,   /* likewise with int4 weights */
    FLOAT,    /* a product of floats */
    SCALED,   /* a float output of a product */
    MAPPED,   /* an element of any other op: not fitted */
    SOFT,     /* an element of a softmax: not fitted */
    KINDS
} kind;

static const double price[KINDS] = {
    [CALL] = 2922,  [DOT8] = 16.3,  [DOT4] = 29.3,   [RESCALED] = 48.2, [PATCH] = 5.2,
    [GATHER] = 176, [DEPTH8] = 14,  [DEPTH4] = 35.5, [PAIRED] = 59.7,   [MOVED] = 7.9,
    [CODED] = 26,   [RANGED] = 1.6, [GROUPED] = 70,  [POOL] = 23.7,     [MIXED8] = 2.6,
    [MIXED4] = 3.6, [FLOAT] = 3.3,  [SCALED] = 78.3, [MAPPED] = 10,     [SOFT] = 100,
};

typedef struct work {
    const dt__c_program *p;
    const dt_trace_call *c;
    double count[KINDS];
} work;

static bool is_op(const work *w, const char *name) { return strcmp(w->c->op->name, name) == 0; }

static bool begins(const work *w, const char *name)
{
    return strncmp(w->c->op->name, name, strlen(name)) == 0;
}

/* Bits per code of an operand; 0: floats. */
static int bits_of(const work *w, int operand)
{
    const dt_trace_operand *o = &w->c->in[operand];
    const dt_trace_value *v = dt_trace_value_at(w->p->trace, o->value);
    if (operand == X && v->coded) return 8;
    const dt_quant_spec *quant = o->quant;
    if (quant == NULL && v->tensor != NULL) quant = dt__quant_of(v->tensor);
    return quant == NULL || dt__real_of(quant) != NULL ? 0 : dt__code_bits(quant) > 4 ? 8 : 4;
}

/* The geometry of a product: outputs with `columns` multiply-adds each, gathered at `positions`. */
typedef struct product {
    double outputs, columns, positions;
    bool conv, depthwise;
} product;

static product product_of(const work *w)
{
    const dt__c_program *p = w->p;
    const int64_t weight = w->c->in[WEIGHT].value, y = w->c->out[0];
    product r = { .outputs = (double)dt__c_count(p, y), .positions = 1 };
    r.conv = strstr(w->c->op->name, "conv") != NULL;
    const double rows = (double)dt__c_dim(p, weight, 0);
    r.columns = (double)dt__c_count(p, weight) / (rows > 0 ? rows : 1);
    if (!r.conv) {
        r.positions = r.outputs / (rows > 0 ? rows : 1);
        return r;
    }
    const int64_t groups = dt__max_i64(1, dt__c_int(w->c, "groups", 0));
    const int64_t channels = dt__max_i64(1, dt__c_dim(p, y, 1));
    if (strstr(w->c->op->name, "transpose") != NULL) {
        r.columns = (double)dt__c_count(p, weight) / (double)dt__c_dim(p, weight, 1);
    }
    r.positions = r.outputs / (double)channels * (double)groups;
    r.depthwise = groups > 1 && groups == dt__c_dim(p, w->c->in[X].value, 1);
    return r;
}

static void add_codes(work *w, const product *r, int bits)
{
    w->count[RESCALED] += r->outputs;
    if (r->depthwise) {
        w->count[bits == 8 ? DEPTH8 : DEPTH4] += r->outputs * r->columns;
        return;
    }
    w->count[bits == 8 ? DOT8 : DOT4] += r->outputs * r->columns / 4;
    w->count[PATCH] += r->positions * r->columns;
    if (r->conv) w->count[GATHER] += r->positions;
}

/* Number of groups of columns with a scale each, if a row has more than one; else 0. */
static double groups_of(const work *w, double columns)
{
    const dt_trace_operand *o = &w->c->in[WEIGHT];
    const dt_trace_value *v = dt_trace_value_at(w->p->trace, o->value);
    const dt_quant_spec *quant = o->quant;
    if (quant == NULL && v->tensor != NULL) quant = dt__quant_of(v->tensor);
    if (quant == NULL || quant->granularity != DT_PER_GROUP || quant->group_size < 1) return 0;
    return (double)(int64_t)((columns - 1) / (double)quant->group_size);
}

static void add_product(work *w)
{
    const product r = product_of(w);
    const int x = bits_of(w, X), bits = bits_of(w, WEIGHT);
    if (w->p->device) {
        add_codes(w, &r, bits);
        return;
    }
    const kind mixed = x == 0 || bits == 0 ? FLOAT : bits == 8 ? MIXED8 : MIXED4;
    w->count[mixed] += r.outputs * r.columns;
    w->count[SCALED] += r.outputs;
    const double read = r.positions * r.columns;
    w->count[x == 0 ? MOVED : CODED] += read;
    if (x != 0 && w->c->in[X].scale == NULL) w->count[RANGED] += read;
    w->count[GROUPED] += r.outputs * groups_of(w, r.columns);
    if (r.conv) w->count[GATHER] += r.positions;
}

static void add_pool(work *w)
{
    const double y = (double)dt__c_count(w->p, w->c->out[0]);
    const double x = (double)dt__c_count(w->p, w->c->in[X].value);
    double window = 1;
    const bool whole =
        strstr(w->c->op->name, "global") != NULL || strstr(w->c->op->name, "adaptive") != NULL;
    for (int d = 2; d < dt__c_rank(w->p, w->c->in[X].value) && !whole; d++) {
        window *= (double)dt__max_i64(1, dt__c_int(w->c, "kernel", d - 2));
    }
    w->count[POOL] += whole ? x : y * window;
}

static bool is_product(const work *w)
{
    return is_op(w, "linear") || is_op(w, "device_linear") || begins(w, "conv") ||
           begins(w, "device_conv2d") || begins(w, "device_conv_transpose2d");
}

static bool moves(const work *w)
{
    static const char *const names[] = {
        "reshape", "flatten", "pad", "concat", "permute", "slice"
    };
    const char *name = w->c->op->name + (begins(w, "device_") ? 7 : 0);
    return DT__IS_ONE_OF(name, names);
}

static void add_other(work *w)
{
    const double y = (double)dt__c_count(w->p, w->c->out[0]);
    const kind of = moves(w) ? MOVED
                    : is_op(w, "device_add") || is_op(w, "device_mul") || is_op(w, "device_sub") ||
                            is_op(w, "device_prelu")
                        ? PAIRED
                    : is_op(w, "device_softmax") || is_op(w, "softmax") ? SOFT
                                                                        : MAPPED;
    w->count[of] += y;
}

double dt__c_instructions(const dt__c_program *p, const dt_trace_call *c)
{
    work w = { .p = p, .c = c };
    double sum = 0;
    if (c->out[0] < 0) return 0;
    w.count[CALL] = 1;
    if (is_product(&w)) add_product(&w);
    else if (strstr(c->op->name, "pool") != NULL) add_pool(&w);
    else add_other(&w);
    for (int k = 0; k < KINDS; k++) sum += w.count[k] * price[k];
    return sum;
}
