/* Writes repeated calls, such as the steps of a recurrent layer, as an ONNX Scan: its body is one
 * repetition, so results have the same bits as the separate steps.
 *
 *     states', results = body(states, rows of this step)
 *
 * States are values that a repetition reads from the previous one; scanned are outer values of
 * which each repetition reads the next rows; the body reads other outer values by name. */
#include "export/onnx/onnx_put_model.h"

#include <string.h>

/* Result k of call j of a repetition. */
typedef struct port {
    int64_t j;
    int k;
    int64_t reader; /* for a state: a call of the first repetition that reads its initial value */
    int operand;
    dt__repeat_slice rows; /* for a scanned value */
    dt__value given;       /* input of the Scan, later its result */
} port;

typedef struct scan {
    dt__put_model *m;
    dt__repeat r;
    port *state, *scanned, *result; /* results of all repetitions are stacked */
    int states, n_scanned, results;
} scan;

static const dt_trace_call *call_at(const scan *s, int64_t k, int64_t j)
{
    return dt_trace_call_at(s->m->trace, s->r.from + k * s->r.n + j);
}

static int64_t value_at(const scan *s, int64_t k, const port *p)
{
    return call_at(s, k, p->j)->out[p->k];
}

static bool has(const port *list, int n, int64_t j, int k)
{
    for (int i = 0; i < n; i++) {
        if (list[i].j == j && list[i].k == k) return true;
    }
    return false;
}

static void find_inputs(scan *s)
{
    const dt_trace *t = s->m->trace;
    for (int64_t j = 0; j < s->r.n; j++) {
        const dt_trace_call *c = call_at(s, 1, j);
        dt__repeat_slice rows;
        if (dt__repeat_rows(t, &s->r, j, &rows)) {
            s->scanned[s->n_scanned++] = (port){ .j = j, .rows = rows };
            continue;
        }
        for (int i = 0; i < c->n_in; i++) {
            const dt__repeat_operand o = dt__repeat_operand_of(t, &s->r, 1, c, i);
            if (o.kind != DT__REPEAT_CARRIED || has(s->state, s->states, o.at, o.result)) continue;
            s->state[s->states++] = (port){ .j = o.at, .k = o.result, .reader = j, .operand = i };
        }
    }
}

/* Whether a value is read after the repetitions. */
static bool is_read(const scan *s, int64_t value)
{
    const int64_t end = s->r.from + s->r.n * s->r.times;
    return value >= 0 && dt_trace_value_at(s->m->trace, value)->last >= end;
}

/* Finds the results that are read later: the last repetition's states are the Scan's states; all
 * others are stacked results. */
static void find_results(scan *s)
{
    for (int64_t j = 0; j < s->r.n; j++) {
        for (int k = 0; k < call_at(s, 1, j)->n_out; k++) {
            const port p = { .j = j, .k = k };
            bool read = false;
            for (int64_t i = 0; i < s->r.times; i++) {
                const bool last = i + 1 == s->r.times;
                if (last && has(s->state, s->states, j, k)) break;
                read = read || is_read(s, value_at(s, i, &p));
            }
            if (read) s->result[s->results++] = p;
        }
    }
}

/* Adds an input of the body, which the second repetition's calls read. */
static void put_parameter(scan *s, int64_t value)
{
    dt__put *to = &s->m->p;
    const dt_trace_value *v = dt_trace_value_at(s->m->trace, value);
    dt__put_port formal = dt__put_port_of(s->m, v, dt__put_name(to, "step"));
    if (formal.name != NULL) s->m->value[value] = dt__put_input(to, &formal);
}

static void put_return(scan *s, const port *p)
{
    dt__put *to = &s->m->p;
    const int64_t value = value_at(s, 1, p);
    const dt_trace_value *v = dt_trace_value_at(s->m->trace, value);
    const dt__put_port formal = dt__put_port_of(s->m, v, dt__put_name(to, "next"));
    if (formal.name != NULL) dt__put_output(to, &formal, s->m->value[value]);
}

/* Writes the nodes of the second repetition, as in the trace its states are not initial values. */
static void put_nodes(scan *s)
{
    for (int i = 0; i < s->states; i++) put_parameter(s, value_at(s, 0, &s->state[i]));
    for (int i = 0; i < s->n_scanned; i++) {
        put_parameter(s, value_at(s, 1, &s->scanned[i]));
    }
    for (int64_t j = 0; j < s->r.n && s->m->status == DT_OK; j++) {
        if (!has(s->scanned, s->n_scanned, j, 0)) dt__put_call(s->m, call_at(s, 1, j));
    }
    for (int i = 0; i < s->states; i++) put_return(s, &s->state[i]);
    for (int i = 0; i < s->results; i++) put_return(s, &s->result[i]);
}

/* Values that the body computes have no names outside of it. */
static ProtobufCBinaryData put_body(scan *s)
{
    dt__put_model *m = s->m;
    const size_t bytes = (size_t)dt_trace_values(m->trace) * sizeof *m->value;
    const dt__put_model before = *m;
    dt__value *value = dt__put_scratch(&m->p, 1, bytes);
    ProtobufCBinaryData body = { 0, NULL };
    if (value == NULL) return body;
    memcpy(value, m->value, bytes);
    dt__put_body around;
    dt__put_body_begin(&m->p, &around);
    put_nodes(s);
    body = dt__put_body_end(&m->p, &around);
    memcpy(m->value, value, bytes);
    m->batch = before.batch;
    m->length = before.length;
    m->integer_products += (m->integer_products - before.integer_products) * (s->r.times - 1);
    m->float_products += (m->float_products - before.float_products) * (s->r.times - 1);
    dt__release(m->p.ctx, value);
    return body;
}

/* The rows that the repetitions read, as [repetition, ...] in order. */
static dt__value rows_of(scan *s, const port *p)
{
    dt__put_model *m = s->m;
    const dt_trace_value *v = dt_trace_value_at(m->trace, value_at(s, 1, p));
    dt_extent extent[DT_MAX_RANK] = { { p->rows.all, 0, 0 } };
    memcpy(extent + 1, v->extent, (size_t)v->rank * sizeof *extent);
    dt__value x = dt__put_plain(m, call_at(s, 0, p->j), 0);
    x = dt__put_reshaped(m, x, v->rank + 1, extent);
    const int64_t first = p->rows.first, step = p->rows.step;
    const int64_t last = first + (s->r.times - 1) * step;
    if (step == 1 && s->r.times == p->rows.all) return x;
    /* reversed by a Slice, as few runtimes support scan_input_directions; an end before the first
     * row is clamped */
    const int64_t end = last + step < 0 ? -p->rows.all - 1 : last + step;
    return DT__PUT(&m->p, "Slice", x, DT__PUT_I64(&m->p, first), DT__PUT_I64(&m->p, end),
                   DT__PUT_I64(&m->p, 0), DT__PUT_I64(&m->p, step));
}

static void put_node(scan *s, ProtobufCBinaryData body)
{
    dt__put *p = &s->m->p;
    const int n = s->states + s->n_scanned, n_out = s->states + s->results;
    dt__value *in = dt__put_memory(p, n, sizeof *in), *out = dt__put_memory(p, n_out, sizeof *out);
    if (p->failed) return;
    for (int i = 0; i < s->states; i++) in[i] = s->state[i].given;
    for (int i = 0; i < s->n_scanned; i++) in[s->states + i] = s->scanned[i].given;
    if (dt__put_node(p, "Scan", in, n) == NULL) return;
    dt__put_attr_body(p, body);
    dt__put_attr_int(p, "num_scan_inputs", s->n_scanned);
    dt__put_results(p, n_out, out);
    for (int i = 0; i < s->states; i++) s->state[i].given = out[i];
    for (int i = 0; i < s->results; i++) s->result[i].given = out[s->states + i];
}

/* Splits the stacked results into the values of the trace. */
static void cut_result(scan *s, const port *p)
{
    dt__put_model *m = s->m;
    const dt_trace_value *v = dt_trace_value_at(m->trace, value_at(s, 1, p));
    dt_extent extent[DT_MAX_RANK];
    memcpy(extent, v->extent, (size_t)v->rank * sizeof *extent);
    extent[0].size *= s->r.times;
    dt__value *part = dt__put_memory(&m->p, s->r.times, sizeof *part);
    dt__value all = dt__put_reshaped(m, p->given, v->rank, extent);
    if (part == NULL || DT__PUT(&m->p, "Split", all) == NULL) return;
    dt__put_attr_int(&m->p, "axis", 0);
    dt__put_attr_int(&m->p, "num_outputs", s->r.times);
    dt__put_results(&m->p, s->r.times, part);
    for (int64_t k = 0; k < s->r.times; k++) m->value[value_at(s, k, p)] = part[k];
}

static void put_scan(scan *s)
{
    find_inputs(s);
    find_results(s);
    s->m->p.hint = dt__put_clean(&s->m->p, call_at(s, 0, 0)->module);
    for (int i = 0; i < s->states; i++) {
        const port *p = &s->state[i];
        s->state[i].given = dt__put_plain(s->m, call_at(s, 0, p->reader), p->operand);
    }
    for (int i = 0; i < s->n_scanned; i++) s->scanned[i].given = rows_of(s, &s->scanned[i]);
    const ProtobufCBinaryData body = put_body(s);
    if (body.data == NULL || s->m->status != DT_OK) return;
    s->m->p.hint = dt__put_clean(&s->m->p, call_at(s, 0, 0)->module);
    put_node(s, body);
    for (int i = 0; i < s->results; i++) cut_result(s, &s->result[i]);
    for (int i = 0; i < s->states; i++) {
        s->m->value[value_at(s, s->r.times - 1, &s->state[i])] = s->state[i].given;
    }
}

void dt__put_repeat(dt__put_model *m, const dt__repeat *r)
{
    const int64_t most = r->n * DT_MAX_OUT;
    scan s = { .m = m, .r = *r };
    s.state = dt__put_memory(&m->p, most, sizeof *s.state);
    s.scanned = dt__put_memory(&m->p, most, sizeof *s.scanned);
    s.result = dt__put_memory(&m->p, most, sizeof *s.result);
    if (!m->p.failed) put_scan(&s);
}
