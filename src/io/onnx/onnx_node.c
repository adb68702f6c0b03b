/* Access to the current node: inputs, results, attributes. */
#include "core/text/json.h"
#include "core/comparisons.h"
#include "io/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

dt_status dt__onnx_refuse(dt__onnx *g, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const dt_status s = dt__fail_v(g->ctx, DT_ERR_UNSUPPORTED, format, arguments);
    va_end(arguments);
    return s;
}

dt__onnx_value *dt__onnx_find(dt__onnx *g, const char *name)
{
    return bsearch(&name, g->value, (size_t)g->n_values, sizeof *g->value, dt__by_text);
}

const dt__onnx_value *dt__onnx_in(dt__onnx *g, int i)
{
    if (i < 0 || (size_t)i >= g->node->n_input || *g->node->input[i] == 0) return NULL;
    return dt__onnx_find(g, g->node->input[i]);
}

dt__onnx_value *dt__onnx_out(dt__onnx *g, int i)
{
    if ((size_t)i >= g->node->n_output || *g->node->output[i] == 0) return NULL;
    return dt__onnx_find(g, g->node->output[i]);
}

void dt__onnx_same(dt__onnx *g, int i, const dt__onnx_value *v)
{
    dt__onnx_value *out = dt__onnx_out(g, i);
    if (out == NULL) return;
    const dt__onnx_value own = *out;
    *out = *v;
    out->name = own.name;
    out->maker = own.maker;
    out->uses = own.uses;
}

void dt__onnx_result(dt__onnx *g, int i, const dt__onnx_layer *l)
{
    dt__onnx_value *out = dt__onnx_out(g, i);
    if (out == NULL) return;
    out->kind = DT__ONNX_COMPUTED;
    out->layer = out->plain = l->index;
    out->rank = l->shape.rank + 1;
    out->outer = out->inner = 0;
    for (int d = 0; d < out->rank; d++) out->axis[d] = d;
}

const DtOnnx__Attribute *dt__onnx_attribute_of(const dt__onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (strcmp(n->attribute[i]->name, name) == 0) return n->attribute[i];
    }
    return NULL;
}

int64_t dt__onnx_int_of(const dt__onnx_node *n, const char *name, int64_t fallback)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(n, name);
    return a == NULL ? fallback : a->i;
}

double dt__onnx_real_attribute(const dt__onnx_node *n, const char *name, double fallback)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(n, name);
    return a == NULL ? fallback : (double)a->f;
}

bool dt__onnx_says(const dt__onnx *g, const char *name, const char *text, const char *fallback)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, name);
    if (a == NULL) return strcmp(text, fallback) == 0;
    return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

dt_status dt__onnx_list(dt__onnx *g, const char *name, dt_ints *out)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, name);
    out->n = 0;
    if (a == NULL) return DT_OK;
    if (a->n_ints > DT_MAX_LIST) {
        return dt__onnx_refuse(g, "%s has %zu elements; %d are the most", name, a->n_ints,
                               DT_MAX_LIST);
    }
    for (size_t i = 0; i < a->n_ints; i++) out->v[out->n++] = a->ints[i];
    return DT_OK;
}

dt_status dt__onnx_list_or_in(dt__onnx *g, const char *name, int input, dt_ints *out)
{
    const dt__onnx_value *v = dt__onnx_in(g, input);
    return v == NULL ? dt__onnx_list(g, name, out) : dt__onnx_ints_of(g, v, name, out);
}

dt_status dt__onnx_axis(dt__onnx *g, int64_t axis, int rank, int *out)
{
    const int own = rank - g->front;
    *out = g->front + (int)(axis < 0 && axis >= -own ? axis + own : axis < own ? axis : 0);
    if (axis >= -own && axis < own) return DT_OK;
    return dt__onnx_refuse(g, "axis %lld does not exist: its input has %d dimensions",
                           (long long)axis, own);
}

dt_status dt__onnx_new_axis(dt__onnx *g, int64_t axis, int rank, bool seen[DT_MAX_RANK], int *out)
{
    DT__TRY(dt__onnx_axis(g, axis, rank, out));
    if (seen[*out]) return dt__onnx_refuse(g, "axis %d occurs twice", *out);
    seen[*out] = true;
    return DT_OK;
}

dt_status dt__onnx_ranges(dt__onnx *g, int rank, int *n, dt__onnx_range to[DT_MAX_RANK])
{
    dt_ints starts, ends, axes, steps = { .n = 0 };
    bool seen[DT_MAX_RANK] = { false };
    DT__TRY(dt__onnx_list_or_in(g, "starts", 1, &starts));
    DT__TRY(dt__onnx_list_or_in(g, "ends", 2, &ends));
    DT__TRY(dt__onnx_list_or_in(g, "axes", 3, &axes));
    if (dt__onnx_in(g, 4) != NULL) {
        DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 4), "steps", &steps));
    }
    *n = starts.n;
    if (ends.n != *n || (axes.n != 0 && axes.n != *n) || (steps.n != 0 && steps.n != *n)) {
        return dt__onnx_refuse(g, "starts, ends, axes and steps differ in number");
    }
    for (int i = 0; i < *n; i++) {
        int axis;
        DT__TRY(dt__onnx_new_axis(g, axes.n > 0 ? axes.v[i] : i, rank, seen, &axis));
        to[i] = (dt__onnx_range){ axis, starts.v[i], ends.v[i], steps.n > 0 ? steps.v[i] : 1 };
        if (to[i].step == 0) return dt__onnx_refuse(g, "it has a step of 0; expected another");
    }
    return DT_OK;
}

int64_t dt__onnx_clamp(dt__onnx_range *r, int64_t n)
{
    const int64_t low = r->step > 0 ? 0 : -1, high = r->step > 0 ? n : n - 1;
    r->first = dt__max_i64(low, dt__min_i64(high, r->first < 0 ? r->first + n : r->first));
    r->end = dt__max_i64(low, dt__min_i64(high, r->end < 0 ? r->end + n : r->end));
    r->step = dt__max_i64(-n - 1, dt__min_i64(r->step, n + 1));
    const int64_t reach = r->step > 0 ? r->end - r->first : r->first - r->end;
    return reach <= 0 ? 0 : dt__ceil_div(reach, r->step > 0 ? r->step : -r->step);
}
