/* dt_graph_inspect: lists the contents of an ONNX or TFLite file, and all that import does not
 * support in it. */
#include "io/graph_info.h"

#include "core/block_list.h"
#include "core/comparisons.h"
#include "core/text/ending.h"
#include "core/text/json.h"

#include <stdlib.h>
#include <string.h>

const char *dt__look_copy(dt__look *l, const char *text)
{
    char *to = dt__block_list_text(l->ctx, &l->info->memory, "%s", text);
    if (to != NULL) dt_text_clean(to);
    return to;
}

dt_status dt__look_value(dt__look *l, bool output, const char *name, const char *type,
                         const char *shape)
{
    int64_t *n = output ? &l->info->n_outputs : &l->info->n_inputs;
    DT__TRY(DT__RESERVE(l->ctx, l->value[output], *n, l->room_values[output]));
    dt_graph_value *v = &l->value[output][*n];
    *v = (dt_graph_value){ dt__look_copy(l, name), type, dt__look_copy(l, shape) };
    ++*n;
    return v->name == NULL || v->shape == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__look_operator(dt__look *l, const char *name, bool known)
{
    DT__TRY(DT__RESERVE(l->ctx, l->operator_, l->info->n_operators, l->room_operators));
    const dt_graph_operator o = { .name = dt__look_copy(l, name), .count = 1, .known = known };
    if (o.name == NULL) return DT_ERR_NOMEM;
    l->operator_[l->info->n_operators++] = o;
    l->info->nodes++;
    return DT_OK;
}

dt_status dt__look_refusal(dt__look *l, const char *text)
{
    dt_graph_info *info = l->info;
    DT__TRY(DT__RESERVE(l->ctx, info->refusal, info->n_refusals, l->room_refusals));
    info->refusal[info->n_refusals] = dt__look_copy(l, text);
    return info->refusal[info->n_refusals++] == NULL ? DT_ERR_NOMEM : DT_OK;
}

static int by_count(const void *left, const void *right)
{
    const dt_graph_operator *a = left, *b = right;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : dt__by_text(left, right);
}

/* Makes one entry per name, the most frequent first. */
static void count_operators(dt__look *l)
{
    dt_graph_operator *o = l->operator_;
    int64_t n = 0;
    if (l->info->n_operators == 0) return;
    qsort(o, (size_t)l->info->n_operators, sizeof *o, dt__by_text);
    for (int64_t i = 0; i < l->info->n_operators; i++) {
        if (n > 0 && strcmp(o[n - 1].name, o[i].name) == 0) o[n - 1].count++;
        else o[n++] = o[i];
    }
    qsort(o, (size_t)n, sizeof *o, by_count);
    l->info->n_operators = n;
}

dt_status dt_graph_inspect(dt_ctx *ctx, const char *path, dt_graph_info *out)
{
    DT__NEED3(ctx, ctx, path, out);
    *out = (dt_graph_info){ .format = "" };
    dt__look l = { .ctx = ctx, .info = out };
    const dt_status s =
        dt__ends_in(path, ".tflite") ? dt__lite_look(&l, path) : dt__onnx_look(&l, path);
    count_operators(&l);
    out->input = l.value[0];
    out->output = l.value[1];
    out->operator_ = l.operator_;
    if (s != DT_OK) dt_graph_info_free(ctx, out);
    return s;
}

void dt_graph_info_free(dt_ctx *ctx, dt_graph_info *info)
{
    if (info == NULL) return;
    DT__RELEASE(ctx, (void *)(uintptr_t)info->input, (void *)(uintptr_t)info->output,
                (void *)(uintptr_t)info->operator_, (void *)info->refusal);
    dt__block_list_free(ctx, &info->memory);
    *info = (dt_graph_info){ .format = "" };
}
