/* Applies input dimensions that the caller gives where the file has symbols. */
#include "core/text/json.h"
#include "io/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

static dt_status wrong(const dt__onnx *g, const char *input, const char *text)
{
    char shown[DT__SHOWN];
    return dt_fail(g->ctx, DT_ERR_ARG, "shape of the input '%s': %s", dt__shown(input, shown),
                   text);
}

static dt_status find_input(const dt__onnx *g, const dt_onnx_shape *s, DtOnnx__ValueInfo **out)
{
    int n = 0;
    for (size_t i = 0; i < g->graph->n_input; i++) {
        DtOnnx__ValueInfo *in = g->graph->input[i];
        if (dt__onnx_is_initializer(g->graph, in->name)) continue;
        if (s->input != NULL && strcmp(in->name, s->input) != 0) continue;
        *out = in;
        n++;
    }
    if (n == 1) return DT_OK;
    if (s->input != NULL) return wrong(g, s->input, "the file has no such input");
    return dt_fail(g->ctx, DT_ERR_ARG, "the shape of an input requires its name: there are %d", n);
}

/* The dimension that stays the batch: one that is given as 0, else the first, if the file does not
 * fix it; -1: none. */
static int open_dimension(const dt__onnx *g, const dt_onnx_shape *s)
{
    for (int i = 0; i < s->dims.n; i++) {
        if (s->dims.v[i] == 0) return i;
    }
    return g->options->no_batch ? -1 : 0;
}

static dt_status put(const dt__onnx *g, const dt_onnx_shape *s)
{
    DtOnnx__ValueInfo *in = NULL;
    char text[160];
    DT__TRY(find_input(g, s, &in));
    const DtOnnx__TensorType *t = in->type == NULL ? NULL : in->type->tensor_type;
    const size_t rank = t == NULL || t->shape == NULL ? 0 : t->shape->n_dim;
    if ((size_t)s->dims.n != rank) {
        snprintf(text, sizeof text, "%d dimensions are given; the file has %zu", s->dims.n, rank);
        return wrong(g, in->name, text);
    }
    for (int i = 0; i < s->dims.n; i++) {
        int64_t *extent = &t->shape->dim[i]->dim_value;
        const int64_t given = s->dims.v[i];
        if (given < 0 || given > INT32_MAX || (*extent > 0 && given > 0 && given != *extent)) {
            snprintf(text, sizeof text, "dimension %d is given as %lld; the file has %lld", i,
                     (long long)given, (long long)*extent);
            return wrong(g, in->name, text);
        }
        if (i != open_dimension(g, s) && given > 0) *extent = given;
    }
    return DT_OK;
}

dt_status dt__onnx_put_shapes(const dt__onnx *g)
{
    for (int64_t i = 0; i < g->options->n_shapes; i++) DT__TRY(put(g, &g->options->shapes[i]));
    return DT_OK;
}
