/* Format c: convolutions. For each output position, the elements that the kernel reads are gathered
 * as a row of codes or floats, which is multiplied by the rows of the weight: only one such row is
 * in memory. */
#include "export/c/c_program.h"
#include "export/c/c_views.h"

#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

static bool takes(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    return dt__c_takes_weight(t, c, WEIGHT, why, size);
}

typedef struct conv {
    int64_t in[3], out[3], groups; /* channels, rows, columns */
    bool transposed;
    dt__c_weight w;
    dt__c_coding k;
    dt__c_name x, y, patch;
    dt__c_room room;
} conv;

static void extents(const dt__c_program *p, int64_t value, int64_t out[3])
{
    const int rank = dt__c_rank(p, value);
    out[0] = dt__c_dim(p, value, 1);
    out[1] = rank == 4 ? dt__c_dim(p, value, 2) : 1;
    out[2] = dt__c_dim(p, value, -1);
}

/* Writes the constant with the geometry. A signal is an image with one row. */
static void put_shape(dt__c_program *p, const dt_trace_call *c, const conv *v)
{
    const bool lines = dt__c_rank(p, c->in[X].value) == 3;
    const int64_t weight = c->in[WEIGHT].value;
    static const char *const keys[] = { "stride", "padding", "dilation" };
    static const int64_t none[] = { 1, 0, 1 };
    int64_t value[3][2], kernel[2] = { 1, dt__c_dim(p, weight, -1) };
    if (!lines) kernel[0] = dt__c_dim(p, weight, 2);
    for (int i = 0; i < 3; i++) {
        value[i][0] = lines ? none[i] : dt__c_int(c, keys[i], 0);
        value[i][1] = dt__c_int(c, keys[i], lines ? 0 : 1);
    }
    dt__c_want(p, "conv_shape");
    dt__c_constant(p,
                   "static const conv_shape s%lld = { /* in, out, groups; kernel, stride; padding, "
                   "dilation */\n"
                   "    %lld, %lld, %lld, %lld, %lld, %lld, %lld,\n"
                   "    %lld, %lld, %lld, %lld,\n"
                   "    %lld, %lld, %lld, %lld\n};\n",
                   (long long)p->at, (long long)v->in[0], (long long)v->in[1], (long long)v->in[2],
                   (long long)v->out[0], (long long)v->out[1], (long long)v->out[2],
                   (long long)v->groups, (long long)kernel[0], (long long)kernel[1],
                   (long long)value[0][0], (long long)value[0][1], (long long)value[1][0],
                   (long long)value[1][1], (long long)value[2][0], (long long)value[2][1]);
}

/* Formats " + i * width + j", without terms that are 0. */
static void position(const conv *v, char *to, size_t size)
{
    char row[48] = "";
    if (v->out[1] > 1) snprintf(row, sizeof row, " + i * %lld", (long long)v->out[2]);
    snprintf(to, size, "%s%s", row, v->out[2] > 1 ? " + j" : "");
}

static void put_position(dt__c_program *p, const conv *v)
{
    const int64_t outs = v->out[0] / v->groups, plane = v->out[1] * v->out[2];
    char y[160], at[64], first[48] = "0", order[48] = "", patch[64];
    position(v, at, sizeof at);
    if (v->groups > 1) {
        snprintf(first, sizeof first, outs > 1 ? "group * %lld" : "group", (long long)outs);
        snprintf(order, sizeof order, " + group * %lld", (long long)v->w.columns);
        snprintf(y, sizeof y, "%s + group * %lld%s", v->y.text, (long long)(outs * plane), at);
    } else {
        snprintf(y, sizeof y, "%s%s", v->y.text, at);
    }
    snprintf(patch, sizeof patch, "conv_patch%s%s", v->transposed ? "_transposed" : "",
             v->w.integer ? "" : "_floats");
    dt__c_want(p, patch);
    char zero[80] = "";
    if (v->w.integer) {
        const char *grid = v->k.grid.text + 1; /* without the & */
        snprintf(zero, sizeof zero, ", (uint8_t)%s.zero", grid);
    }
    dt__c_line(p, "%s(&s%lld, %s, %s, %s, %s%s, %s);", patch, (long long)p->at, v->x.text,
               v->groups > 1 ? "group" : "0", v->out[1] > 1 ? "i" : "0", v->out[2] > 1 ? "j" : "0",
               zero, v->patch.text);
    const dt__c_row row = { v->patch.text, first, y, order, outs, plane };
    dt__c_put_product(p, &v->w, &v->k, &v->room, &row);
}

static void put_loops(dt__c_program *p, const conv *v)
{
    const struct {
        const char *index;
        int64_t n;
    } loops[] = { { "i", v->out[1] }, { "j", v->out[2] }, { "group", v->groups } };
    int open = 0;
    for (int l = 0; l < 3; l++) {
        if (loops[l].n <= 1) continue;
        dt__c_line(p, "for (int32_t %s = 0; %s < %lld; %s++) {", loops[l].index, loops[l].index,
                   (long long)loops[l].n, loops[l].index);
        open++;
    }
    put_position(p, v);
    while (open-- > 0) dt__c_line(p, "}");
}

static void emit(dt__c_program *p, const dt_trace_call *c)
{
    const dt_trace_operand *x = &c->in[X];
    conv v = { .groups = dt__c_int(c, "groups", 0),
               .y = dt__c_out(p, c, 0),
               .transposed = strncmp(c->op->name, "conv_transpose", 14) == 0 };
    const dt__c_weight_operand of = { WEIGHT, BIAS, v.transposed ? v.groups : 0 };
    if (!dt__c_weight_of(p, c, &of, &v.w)) return;
    const bool integer = v.w.integer;
    extents(p, x->value, v.in);
    extents(p, c->out[0], v.out);
    put_shape(p, c, &v);
    v.x = integer ? dt__c_value(p, x->value) : dt__c_in(p, c, X);
    v.patch = integer ? dt__c_scratch(p, c, "uint8_t", v.w.columns, 1)
                      : dt__c_scratch(p, c, "float", v.w.columns, sizeof(float));
    v.room = dt__c_product_room(p, c, &v.w);
    if (!integer) {
        p->float_products++;
        put_loops(p, &v);
        return;
    }
    p->integer_products++;
    v.k = dt__c_coding_of(p, c, x);
    const int64_t n = dt__c_count(p, x->value);
    const dt__c_name u = dt__c_scratch(p, c, "uint8_t", n, 1);
    dt__c_line(p, "{");
    dt__c_declare_grid(p, &v.k);
    dt__c_find_grid(p, &v.k, x, v.x.text, n);
    dt__c_quantize(p, &v.k, x, v.x.text, n, u.text);
    v.x = u;
    put_loops(p, &v);
    dt__c_line(p, "}");
}

const dt__c_emitter dt__c_emit_convs[] = { { "conv2d", NULL, takes, emit },
                                           { "conv1d", NULL, takes, emit },
                                           { "conv_transpose2d", NULL, takes, emit },
                                           { "conv_transpose1d", NULL, takes, emit },
                                           { 0 } };
