/* Format c: linear layers, and products of matrices.
 *
 *     codes times codes                     in integers (numerics.md section 2)
 *     floats times codes without zero points      one scale per group
 *     else                                  acc = fma(x[k], w[k], acc), k ascending */
#include "export/c/c_codes.h"
#include "export/c/c_program.h"
#include "export/c/c_views.h"

#include <stdio.h>
#include <string.h>

enum { X, WEIGHT, BIAS, RESIDUAL };

static bool takes(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    return dt__c_takes_weight(t, c, WEIGHT, why, size);
}

/* Functions of activations that follow a product, indexed by dt_activation. */
static const char *const activations[] = {
    NULL,       "map_relu",  "map_gelu_erf",  "map_gelu_tanh",   "map_tanh", "map_sigmoid",
    "map_silu", "map_relu6", "map_hardswish", "map_hardsigmoid", "map_elu"
};

void dt__c_put_after(dt__c_program *p, const dt_trace_call *c, int residual, int activation)
{
    const int64_t n = dt__c_count(p, c->out[0]);
    const dt__c_name y = dt__c_out(p, c, 0);
    if (residual < c->n_in && c->in[residual].value >= 0) {
        dt__c_want(p, "map_add");
        dt__c_line(p, "map_add(%s, 1, %s, 1, %lld, %s);", y.text, dt__c_in(p, c, residual).text,
                   (long long)n, y.text);
    }
    if (activation == 0) return;
    const char *map = activations[activation];
    dt__c_want(p, map);
    dt__c_line(p, "%s(%s, %lld%s, %s);", map, y.text, (long long)n,
               strcmp(map, "map_elu") == 0 ? ", 1.0f" : "", y.text);
}

/* Operands of a product of rows. */
typedef struct linear {
    dt__c_weight w;
    dt__c_coding k;
    dt__c_name x, y, u;
    dt__c_room room;
    int64_t rows;
} linear;

/* Expression for row i of `name`, which has rows of n elements. */
static void at_row(char *to, size_t size, const char *name, int64_t rows, int64_t n)
{
    if (rows > 1) snprintf(to, size, "%s + i * %lld", name, (long long)n);
    else snprintf(to, size, "%s", name);
}

static void put_rows(dt__c_program *p, const dt_trace_call *c, const linear *l)
{
    char x[96], y[96];
    const dt__c_weight *w = &l->w;
    at_row(x, sizeof x, l->x.text, l->rows, w->columns);
    at_row(y, sizeof y, l->y.text, l->rows, w->rows);
    if (w->integer && !l->k.by_row) {
        dt__c_find_grid(p, &l->k, &c->in[X], l->x.text, l->rows * w->columns);
    }
    if (l->rows > 1) dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) {", (long long)l->rows);
    if (w->integer && l->k.by_row) dt__c_find_grid(p, &l->k, &c->in[X], x, w->columns);
    if (w->integer) {
        dt__c_quantize(p, &l->k, &c->in[X], x, w->columns, l->u.text);
    }
    const dt__c_row row = { w->integer ? l->u.text : x, "0", y, "", w->rows, 1 };
    dt__c_put_product(p, w, &l->k, &l->room, &row);
    if (l->rows > 1) dt__c_line(p, "}");
}

/* Rows of floats times a weight of codes. */
static void put_floats(dt__c_program *p, const dt_trace_call *c, linear *l)
{
    char x[96], y[96];
    const dt__c_weight *w = &l->w;
    at_row(x, sizeof x, l->x.text, l->rows, w->columns);
    at_row(y, sizeof y, l->y.text, l->rows, w->rows);
    const bool ordered = strcmp(w->places.text, "0") != 0;
    const dt__c_name room =
        ordered ? dt__c_scratch(p, c, "float", w->columns, sizeof(float)) : (dt__c_name){ "" };
    dt__c_want(p, "product_floats_codes");
    if (l->rows > 1) dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) {", (long long)l->rows);
    if (ordered) {
        dt__c_want(p, "codes_scatter_floats");
        dt__c_line(p, "scatter_floats(%s, %s, %lld, %s);", x, w->places.text, (long long)w->columns,
                   room.text);
    }
    dt__c_line(p, "product_floats_codes(&%s, %d, %s, 0, %lld, %s, 1);", w->name.text, w->bits,
               ordered ? room.text : x, (long long)w->rows, y);
    if (l->rows > 1) dt__c_line(p, "}");
}

static void emit(dt__c_program *p, const dt_trace_call *c)
{
    linear l = { .y = dt__c_out(p, c, 0) };
    const dt_trace_operand *x = &c->in[X];
    if (!dt__c_weight_of(p, c, &(dt__c_weight_operand){ WEIGHT, BIAS, 0 }, &l.w)) return;
    l.rows = dt__c_count(p, x->value) / dt__max_i64(1, l.w.columns);
    l.x = l.w.integer ? dt__c_value(p, x->value) : dt__c_in(p, c, X);
    const bool zeros = strcmp(l.w.zeros.text, "0") != 0;
    const bool by_codes = l.w.coded && dt__c_reads_values(x) && !zeros;
    if (l.w.integer) {
        p->integer_products++;
        l.k = dt__c_coding_of(p, c, x);
        l.u = dt__c_codes_room(p, c, &l.k, l.w.columns);
    } else {
        p->float_products++;
    }
    l.room = dt__c_product_room(p, c, &l.w);
    const bool block = l.w.integer && l.k.dynamic;
    if (block) dt__c_line(p, "{");
    if (block) dt__c_declare_grid(p, &l.k);
    if (by_codes) put_floats(p, c, &l);
    else put_rows(p, c, &l);
    if (block) dt__c_line(p, "}");
    dt__c_put_after(p, c, RESIDUAL, *(const int *)dt__c_field(c, "activation"));
}

/* Formats " + i0 * 12 + ...": where the operand's matrix begins; i0 ... are batch indices of y. */
static void put_offset(const dt__c_program *p, int64_t value, int64_t y, char *to, size_t size)
{
    const int rank = dt__c_rank(p, value), lead = dt__c_rank(p, y) - rank;
    int64_t step = dt__c_dim(p, value, -1) * dt__c_dim(p, value, -2);
    size_t used = 0;
    to[0] = '\0';
    for (int d = rank - 3; d >= 0; d--) {
        const int64_t n = dt__c_dim(p, value, d);
        if (n > 1) {
            used += (size_t)snprintf(to + used, size - used, " + i%d * %lld", lead + d,
                                     (long long)step);
        }
        step *= n;
    }
}

static void emit_matmul(dt__c_program *p, const dt_trace_call *c)
{
    const dt__c_name a = dt__c_in(p, c, 0), b = dt__c_in(p, c, 1);
    const int64_t x = c->in[0].value, y = c->out[0];
    char at[3][24 * DT_MAX_RANK];
    int open = 0;
    put_offset(p, x, y, at[0], sizeof at[0]);
    put_offset(p, c->in[1].value, y, at[1], sizeof at[1]);
    put_offset(p, y, y, at[2], sizeof at[2]);
    p->float_products++;
    dt__c_want(p, "product_matrices");
    for (int d = 0; d < dt__c_rank(p, y) - 2; d++) {
        const long long n = (long long)dt__c_dim(p, y, d);
        if (n <= 1) continue;
        dt__c_line(p, "for (int32_t i%d = 0; i%d < %lld; i%d++) {", d, d, n, d);
        open++;
    }
    dt__c_line(p, "product_matrices(%s%s, %s%s, %lld, %lld, %lld, %s%s);", a.text, at[0], b.text,
               at[1], (long long)dt__c_dim(p, y, -2), (long long)dt__c_dim(p, x, -1),
               (long long)dt__c_dim(p, y, -1), dt__c_out(p, c, 0).text, at[2]);
    while (open-- > 0) dt__c_line(p, "}");
}

const dt__c_emitter dt__c_emit_products[] = { { "linear", NULL, takes, emit },
                                              { "matmul", NULL, NULL, emit_matmul },
                                              { 0 } };
