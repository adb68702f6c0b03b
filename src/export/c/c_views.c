/* Format c: options by key, and the geometry of views. */
#include "export/c/c_views.h"
#include "export/trace/trace.h"

#include <string.h>

const void *dt__c_field(const dt_trace_call *c, const char *name)
{
    const dt_key *k = c->op->keys;
    while (strcmp(k->name, name) != 0) k++;
    return (const char *)c->options + k->offset;
}

int64_t dt__c_int(const dt_trace_call *c, const char *key, int i)
{
    return ((const int64_t *)dt__c_field(c, key))[i];
}

double dt__c_real(const dt_trace_call *c, const char *key)
{
    return *(const double *)dt__c_field(c, key);
}

bool dt__c_flag(const dt_trace_call *c, const char *key)
{
    return *(const bool *)dt__c_field(c, key);
}

const dt_ints *dt__c_ints(const dt_trace_call *c, const char *key) { return dt__c_field(c, key); }

static void whole(const dt__c_program *p, int64_t value, dt__c_view *v)
{
    int64_t step = 1;
    *v = (dt__c_view){ .rank = dt__c_rank(p, value) };
    for (int d = v->rank - 1; d >= 0; d--) {
        v->dims[d] = dt__c_dim(p, value, d);
        v->strides[d] = step;
        step *= v->dims[d];
    }
}

static void cut(const dt_trace_call *c, dt__c_view *v)
{
    const dt_ints *dims = dt__c_ints(c, "dims"), *starts = dt__c_ints(c, "starts");
    const dt_ints *stops = dt__c_ints(c, "stops"), *steps = dt__c_ints(c, "steps");
    for (int i = 0; i < dims->n; i++) {
        const int d = dt__trace_axis(dims->v[i], v->rank);
        const int64_t start = dt__bound_in(starts->v[i], v->dims[d]);
        const int64_t length = dt__bound_in(stops->v[i], v->dims[d]) - start;
        const int64_t step = steps->n > 0 ? steps->v[i] : 1;
        v->dims[d] = length > 0 ? (length - 1) / step + 1 : 0;
        if (length > 0) v->offset += start * v->strides[d];
        if (v->dims[d] > 1) v->strides[d] *= step;
    }
}

static void reorder(const dt_trace_call *c, dt__c_view *v)
{
    const dt__c_view x = *v;
    const dt_ints *dims = dt__c_ints(c, "dims");
    for (int d = 0; d < x.rank; d++) {
        const int from = dt__trace_axis(dims->v[d], x.rank);
        v->dims[d] = x.dims[from];
        v->strides[d] = x.strides[from];
    }
}

static void swap(const dt_trace_call *c, dt__c_view *v)
{
    const dt__c_view x = *v;
    const int a = dt__trace_axis(dt__c_int(c, "dim0", 0), x.rank);
    const int b = dt__trace_axis(dt__c_int(c, "dim1", 0), x.rank);
    v->dims[a] = x.dims[b];
    v->dims[b] = x.dims[a];
    v->strides[a] = x.strides[b];
    v->strides[b] = x.strides[a];
}

bool dt__c_view_of(const dt__c_program *p, const dt_trace_call *c, dt__c_view *v)
{
    static const struct {
        const char *op;
        void (*change)(const dt_trace_call *c, dt__c_view *v);
    } views[] = { { "slice", cut }, { "permute", reorder }, { "transpose", swap } };
    whole(p, c->in[0].value, v);
    if (dt_trace_is_view(c)) return true;
    for (int i = 0; i < DT__COUNT_OF(views); i++) {
        if (strcmp(c->op->name, views[i].op) != 0) continue;
        views[i].change(c, v);
        return true;
    }
    return false;
}

bool dt__c_is_run(const dt__c_view *v)
{
    int64_t step = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->dims[d] > 1 && v->strides[d] != step) return false;
        step *= v->dims[d];
    }
    return true;
}

void dt__c_merge(dt__c_view *v, int64_t *other)
{
    int n = 0;
    for (int d = 0; d < v->rank; d++) {
        if (v->dims[d] == 1) continue;
        const bool joins = n > 0 && v->strides[n - 1] == v->strides[d] * v->dims[d] &&
                           other[n - 1] == other[d] * v->dims[d];
        if (joins) n--;
        const int64_t before = joins ? v->dims[n] : 1;
        v->dims[n] = before * v->dims[d];
        v->strides[n] = v->strides[d];
        other[n] = other[d];
        n++;
    }
    v->rank = n;
}

bool dt__c_is_concat_run(const dt__c_program *p, const dt_trace_call *c)
{
    if (strcmp(c->op->name, "concat") != 0) return false;
    const int64_t y = c->out[0];
    const int dim = dt__trace_axis(dt__c_int(c, "dim", 0), dt__c_rank(p, y));
    for (int d = 0; d < dim; d++) {
        if (dt__c_dim(p, y, d) != 1) return false;
    }
    return true;
}
