/* Scan (https://github.com/onnx/onnx, docs/Operators.md, version 21): its body runs once for each
 * element of the scanned inputs along their first dimension, forwards or backwards. It computes new
 * states from states, and results that are stacked. Axes other than 0, and results that are stacked
 * backwards, are errors. */
#include "io/onnx/interpret/interpret.h"

#include <string.h>

#define MOST 64 /* of states and scanned inputs, and of states and results */

typedef struct scan {
    int64_t states, scanned, results, steps;
    dt__verify_named in[MOST];
    dt__verify_list directions;
} scan;

static dt_status read_sizes(const dt__verify_call *c, scan *s)
{
    if (c->body == NULL) return dt__verify_refuse(c, "it has no body");
    const int64_t bodys = dt__verify_inputs(c->body), outs = dt__verify_outputs(c->body);
    s->scanned = dt__onnx_int_of(c->node, "num_scan_inputs", 0);
    s->states = c->n_in - s->scanned;
    s->results = c->n_out - s->states;
    if (s->scanned < 1 || s->states < 0 || s->results < 0 || c->n_in > MOST || c->n_out > MOST) {
        return dt__verify_refuse(c, "%lld scanned of %lld inputs, and %lld outputs; at most %d",
                                 (long long)s->scanned, (long long)c->n_in, (long long)c->n_out,
                                 MOST);
    }
    if (bodys != c->n_in || outs != c->n_out) {
        return dt__verify_refuse(c, "its body has %lld inputs and %lld outputs for %lld and %lld",
                                 (long long)bodys, (long long)outs, (long long)c->n_in,
                                 (long long)c->n_out);
    }
    DT__TRY(dt__verify_attribute_list(c, "scan_input_directions", &s->directions));
    if (s->directions.n < 0 || s->directions.n == s->scanned) return DT_OK;
    return dt__verify_refuse(c, "%d directions of %lld scanned inputs; expected one for each",
                             s->directions.n, (long long)s->scanned);
}

static dt_status read_inputs(dt__verify_call *c, scan *s)
{
    for (int64_t i = 0; i < c->n_in; i++) {
        const dt__verify_value *x = dt__verify_in(c, i);
        if (x == NULL) return dt__verify_refuse(c, "input %lld is missing", (long long)i);
        s->in[i] = (dt__verify_named){ dt__verify_input_name(c->body, i), *x };
        if (i < s->states) {
            void *copy;
            const size_t size = dt__verify_size(x->type);
            DT__TRY(dt__verify_scratch(c, x->count, size, &copy));
            if (x->count > 0) memcpy(copy, x->data, (size_t)x->count * size);
            s->in[i].value.data = copy;
            continue;
        }
        if (x->rank < 1 || x->dims[0] < 1 || (i > s->states && x->dims[0] != s->steps)) {
            return dt__verify_refuse(
                c, "scanned inputs differ in length, or have none; expected the same");
        }
        s->steps = x->dims[0];
        dt__verify_value *element = &s->in[i].value;
        element->rank--;
        memmove(element->dims, element->dims + 1, (size_t)element->rank * sizeof *element->dims);
        element->count = x->count / s->steps;
    }
    return DT_OK;
}

/* Sets scanned input i of the body for a step. */
static void set_element(const dt__verify_call *c, scan *s, int64_t i, int64_t step)
{
    const dt__verify_value *x = dt__verify_in(c, s->states + i);
    dt__verify_value *element = &s->in[s->states + i].value;
    const int64_t at = s->directions.n > 0 && s->directions.v[i] == 1 ? s->steps - 1 - step : step;
    element->data = (char *)x->data + (size_t)(at * element->count) * dt__verify_size(x->type);
}

static bool is_like(const dt__verify_value *a, const dt__verify_value *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Takes the states for the next step; their extents must not change. */
static dt_status take_states(const dt__verify_call *c, scan *s)
{
    for (int64_t i = 0; i < s->states; i++) {
        const dt__verify_value *y = dt__verify_output(c->body, i);
        const dt__verify_value *x = &s->in[i].value;
        if (!is_like(x, y)) {
            return dt__verify_refuse(c, "state %lld changes its type or extents", (long long)i);
        }
        memcpy(x->data, y->data, (size_t)y->count * dt__verify_size(y->type));
    }
    return DT_OK;
}

/* Stacks the results of a step. */
static dt_status take_results(dt__verify_call *c, const scan *s, int64_t step)
{
    for (int64_t i = s->states; i < c->n_out; i++) {
        const dt__verify_value *y = dt__verify_output(c->body, i);
        dt__verify_value *all = c->out[i];
        if (step == 0 && y->rank < DT_MAX_RANK) {
            int64_t dims[DT_MAX_RANK] = { s->steps };
            memcpy(dims + 1, y->dims, (size_t)y->rank * sizeof *dims);
            DT__TRY(dt__verify_make(c, i, y->type, y->rank + 1, dims, &all));
        }
        if (all == NULL) continue;
        if (all->data == NULL || all->type != y->type || all->count != y->count * s->steps) {
            return dt__verify_refuse(c, "result %lld changes its type or extents", (long long)i);
        }
        const size_t bytes = (size_t)y->count * dt__verify_size(y->type);
        if (bytes > 0) memcpy((char *)all->data + (size_t)step * bytes, y->data, bytes);
    }
    return DT_OK;
}

static dt_status run_scan(dt__verify_call *c)
{
    scan s = { .states = 0 };
    DT__TRY(read_sizes(c, &s));
    DT__TRY(read_inputs(c, &s));
    for (int64_t step = 0; step < s.steps; step++) {
        for (int64_t i = 0; i < s.scanned; i++) set_element(c, &s, i, step);
        DT__TRY(dt__verify_run_body(c, s.in, c->n_in));
        DT__TRY(take_states(c, &s));
        DT__TRY(take_results(c, &s, step));
    }
    for (int64_t i = 0; i < s.states; i++) {
        dt__verify_value *y;
        if (c->out[i] == NULL) continue;
        DT__TRY(dt__verify_make_like(c, i, &s.in[i].value, &y));
        memcpy(y->data, s.in[i].value.data, (size_t)y->count * dt__verify_size(y->type));
    }
    return DT_OK;
}

const dt__verify_operator dt__verify_scans[] = {
    { "Scan", run_scan, 1, 0, 0, 0, DT__VERIFY_ANY, "body num_scan_inputs scan_input_directions ",
      NULL, NULL, 0, 0 },
    { NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0 },
};
