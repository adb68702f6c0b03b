/* Finds repeated calls, such as the unrolled steps of a recurrent layer. Each repetition reads
 * results of the previous one, and consecutive rows of outer values. */
#include "export/trace/trace.h"
#include "qat/quantized.h"

#include <detent/experimental/ops.h>

#include <stddef.h>
#include <string.h>

#define LONGEST 64 /* calls per repetition */
#define FEWEST 4   /* least number of repetitions */

static const dt_trace_call *call_at(const dt_trace *t, const dt__repeat *r, int64_t k, int64_t j)
{
    return &t->call[r->from + k * r->n + j];
}

dt__repeat_operand dt__repeat_operand_of(const dt_trace *t, const dt__repeat *r, int64_t k,
                                         const dt_trace_call *c, int i)
{
    const int64_t begin = r->from + k * r->n, value = c->in[i].value;
    if (value < 0) return (dt__repeat_operand){ DT__REPEAT_OUTER, -1, -1 };
    const dt_trace_value *v = &t->value[value];
    if (v->kind == DT_VALUE_RESULT && v->call >= begin) {
        return (dt__repeat_operand){ DT__REPEAT_INNER, v->call - begin, v->result };
    }
    if (v->kind == DT_VALUE_RESULT && k > 0 && v->call >= begin - r->n) {
        return (dt__repeat_operand){ DT__REPEAT_CARRIED, v->call - begin + r->n, v->result };
    }
    return (dt__repeat_operand){ DT__REPEAT_OUTER, value, 0 };
}

static bool is_multiple(dt_extent e, dt_extent of)
{
    const bool unit = e.batch == of.batch && e.length == of.length;
    return (unit || e.size == 0) && of.size > 0 && e.size % of.size == 0;
}

bool dt__repeat_rows(const dt_trace *t, const dt__repeat *r, int64_t j, dt__repeat_slice *out)
{
    const dt_trace_call *a = call_at(t, r, 0, j), *b = call_at(t, r, 1, j);
    if (strcmp(a->op->name, "slice") != 0) return false;
    if (dt__repeat_operand_of(t, r, 1, b, 0).kind != DT__REPEAT_OUTER) return false;
    const dt_slice_options *o = a->options;
    if (o->dims.n != 1 || o->dims.v[0] != 0 || (o->steps.n > 0 && o->steps.v[0] != 1)) return false;
    const size_t start = offsetof(dt_slice_options, starts) + offsetof(dt_ints, v);
    const dt_extent first = dt_trace_option(a, start), second = dt_trace_option(b, start);
    const dt_extent rows = t->value[a->out[0]].extent[0];
    const dt_extent all = t->value[a->in[0].value].extent[0];
    if (!is_multiple(first, rows) || !is_multiple(second, rows) || !is_multiple(all, rows)) {
        return false;
    }
    *out = (dt__repeat_slice){ .first = first.size / rows.size,
                               .step = (second.size - first.size) / rows.size,
                               .all = all.size / rows.size };
    return out->step == 1 || out->step == -1;
}

/* Whether call j reads the next rows in repetition k. */
static bool continues_rows(const dt_trace *t, const dt__repeat *r, int64_t k, int64_t j)
{
    dt__repeat_slice first, later;
    const dt__repeat from = { r->from + (k - 1) * r->n, r->n, 2 };
    return dt__repeat_rows(t, r, j, &first) && dt__repeat_rows(t, &from, j, &later) &&
           later.step == first.step && later.first == first.first + (k - 1) * first.step;
}

static bool same_form(const dt_trace *t, int64_t a, int64_t b)
{
    if (a < 0 || b < 0) return a == b;
    const dt_trace_value *x = &t->value[a], *y = &t->value[b];
    return x->dtype == y->dtype && x->rank == y->rank &&
           memcmp(x->extent, y->extent, (size_t)x->rank * sizeof *x->extent) == 0;
}

static bool same_reading(const dt_trace_operand *a, const dt_trace_operand *b)
{
    const bool quantized = a->quant != NULL && b->quant != NULL;
    if (quantized ? !dt__same_quant(a->quant, b->quant) : a->quant != b->quant) return false;
    return a->coded == b->coded && a->sample == b->sample && a->weight == b->weight &&
           a->scale == b->scale && a->zero_point == b->zero_point;
}

/* Whether operand i of a call in repetition k > 0 corresponds to that in the previous
 * repetition. */
static bool continues_operand(const dt_trace *t, const dt__repeat *r, int64_t k, int64_t j, int i)
{
    const dt_trace_call *a = call_at(t, r, k - 1, j), *b = call_at(t, r, k, j);
    const dt__repeat_operand x = dt__repeat_operand_of(t, r, k - 1, a, i);
    const dt__repeat_operand y = dt__repeat_operand_of(t, r, k, b, i);
    if (!same_reading(&a->in[i], &b->in[i]) || !same_form(t, a->in[i].value, b->in[i].value)) {
        return false;
    }
    if (k == 1 && y.kind == DT__REPEAT_CARRIED) return x.kind == DT__REPEAT_OUTER;
    return x.kind == y.kind && x.at == y.at && x.result == y.result;
}

static bool continues_call(const dt_trace *t, const dt__repeat *r, int64_t k, int64_t j)
{
    const dt_trace_call *a = call_at(t, r, k - 1, j), *b = call_at(t, r, k, j);
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
        strcmp(a->module, b->module) != 0) {
        return false;
    }
    for (int i = 0; i < a->n_in; i++) {
        if (!continues_operand(t, r, k, j, i)) return false;
    }
    for (int i = 0; i < a->n_out; i++) {
        if (!same_form(t, a->out[i], b->out[i])) return false;
        if (a->out[i] >= 0 && t->value[a->out[i]].rank == 0) return false;
    }
    dt__repeat_slice rows;
    if (dt__repeat_rows(t, r, j, &rows)) return continues_rows(t, r, k, j);
    return a->options == NULL || memcmp(a->options, b->options, a->op->options_size) == 0;
}

static bool continues(const dt_trace *t, const dt__repeat *r, int64_t k)
{
    if (r->from + (k + 1) * r->n > t->n_calls) return false;
    for (int64_t j = 0; j < r->n; j++) {
        if (!continues_call(t, r, k, j)) return false;
    }
    return true;
}

/* Whether there are values that pass from one repetition to the next, each with one initial value,
 * and rows that advance. */
static bool has_states(const dt_trace *t, const dt__repeat *r)
{
    int64_t initial[LONGEST][DT_MAX_OUT];
    bool any = false, rows = false;
    memset(initial, 0xff, sizeof initial);
    for (int64_t j = 0; j < r->n; j++) {
        const dt_trace_call *c = call_at(t, r, 1, j);
        dt__repeat_slice slice;
        rows = rows || dt__repeat_rows(t, r, j, &slice);
        for (int i = 0; i < c->n_in; i++) {
            const dt__repeat_operand o = dt__repeat_operand_of(t, r, 1, c, i);
            if (o.kind != DT__REPEAT_CARRIED) continue;
            const int64_t from = call_at(t, r, 0, j)->in[i].value;
            int64_t *is = &initial[o.at][o.result];
            if (*is >= 0 && *is != from) return false;
            *is = from;
            any = true;
        }
    }
    return any && rows;
}

bool dt__trace_repeat(const dt_trace *t, int64_t from, dt__repeat *out)
{
    *out = (dt__repeat){ .from = from };
    for (int64_t n = 1; n <= LONGEST && from + FEWEST * n <= t->n_calls; n++) {
        dt__repeat r = { from, n, 1 };
        while (continues(t, &r, r.times)) r.times++;
        if (r.times < FEWEST || (r.times - 1) * n <= (out->times - 1) * out->n) continue;
        if (has_states(t, &r)) *out = r;
    }
    return out->times > 0;
}
