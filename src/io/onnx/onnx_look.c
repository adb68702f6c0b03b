/* dt_graph_inspect: what is in an ONNX file, and all that import refuses in it. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct look {
    dt_ctx *ctx;
    dt_graph_info *info;
    const dt__onnx_file *file;
    int64_t room;
} look;

/* A cleaned copy in the memory of the result; NULL: NOMEM. */
static const char *copy(look *l, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *to = dt__block_list_add(l->ctx, &l->info->memory, n);
    if (to == NULL) return NULL;
    memcpy(to, text, n);
    dt_text_clean(to);
    return to;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static const char *type_text(int type)
{
    static const char *const names[] = {
        [DT__ONNX_FLOAT] = "float",   [DT__ONNX_U8] = "uint8",
        [DT__ONNX_I8] = "int8",       [DT__ONNX_U16] = "uint16",
        [DT__ONNX_I16] = "int16",     [DT__ONNX_I32] = "int32",
        [DT__ONNX_I64] = "int64",     [8] = "text",
        [DT__ONNX_BOOL] = "bool",     [DT__ONNX_F16] = "float16",
        [DT__ONNX_DOUBLE] = "double", [DT__ONNX_U32] = "uint32",
        [DT__ONNX_U64] = "uint64",    [DT__ONNX_BF16] = "bfloat16",
    };
    const bool known = type > 0 && type < DT__COUNT_OF(names) && names[type] != NULL;
    return known ? names[type] : "unknown";
}

static dt_status take_value(look *l, const DtOnnx__ValueInfo *v, dt_graph_value *to)
{
    const DtOnnx__TensorType *t = v->type == NULL ? NULL : v->type->tensor_type;
    const DtOnnx__Shape *shape = t == NULL ? NULL : t->shape;
    char text[400] = "[", number[32];
    size_t used = 1;
    for (size_t i = 0; shape != NULL && i < shape->n_dim && used < 300; i++) {
        const DtOnnx__Dimension *d = shape->dim[i];
        snprintf(number, sizeof number, "%" PRId64, d->dim_value);
        used += (size_t)snprintf(text + used, 90, "%s%.80s", i == 0 ? "" : ",",
                                 d->dim_value != 0    ? number
                                 : *d->dim_param != 0 ? d->dim_param
                                                      : "?");
    }
    snprintf(text + used, sizeof text - used, "]");
    to->name = copy(l, v->name);
    to->type = type_text(t == NULL ? 0 : t->elem_type);
    to->shape = copy(l, shape == NULL ? "unknown" : text);
    return to->name == NULL || to->shape == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status take_values(look *l, DtOnnx__ValueInfo *const *from, size_t n, bool inputs)
{
    int64_t *count = inputs ? &l->info->n_inputs : &l->info->n_outputs;
    dt_graph_value *v = dt__block_list_add(l->ctx, &l->info->memory, (n + 1) * sizeof *v);
    if (v == NULL) return DT_ERR_NOMEM;
    *(inputs ? &l->info->input : &l->info->output) = v;
    for (size_t i = 0; i < n; i++) {
        if (inputs && dt__onnx_is_initializer(l->file->model->graph, from[i]->name)) continue;
        DT__TRY(take_value(l, from[i], &v[(*count)++]));
    }
    return DT_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    return strcmp(((const dt_graph_operator *)left)->name,
                  ((const dt_graph_operator *)right)->name);
}

static int by_count(const void *left, const void *right)
{
    const dt_graph_operator *a = left, *b = right;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->name, b->name);
}

static dt_status take_operators(look *l, const DtOnnx__Graph *graph)
{
    char text[200];
    int64_t n = 0;
    dt_graph_operator *o =
        dt__block_list_add(l->ctx, &l->info->memory, (graph->n_node + 1) * sizeof *o);
    if (o == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < graph->n_node; i++) {
        const dt__onnx_node *node = graph->node[i];
        const bool standard = *node->domain == 0 || strcmp(node->domain, "ai.onnx") == 0;
        snprintf(text, sizeof text, "%.90s%s%.90s", standard ? "" : node->domain,
                 standard ? "" : ".", node->op_type);
        o[i] = (dt_graph_operator){ .name = copy(l, text), .count = 1 };
        o[i].known = standard && dt__onnx_operator_of(node->op_type) != NULL;
        if (o[i].name == NULL) return DT_ERR_NOMEM;
    }
    qsort(o, graph->n_node, sizeof *o, by_name);
    for (size_t i = 0; i < graph->n_node; i++) {
        if (n > 0 && strcmp(o[n - 1].name, o[i].name) == 0) o[n - 1].count++;
        else o[n++] = o[i];
    }
    qsort(o, (size_t)n, sizeof *o, by_count);
    l->info->operator_ = o;
    l->info->n_operators = n;
    l->info->nodes = (int64_t)graph->n_node;
    return DT_OK;
}

static void count_parameters(look *l, const DtOnnx__Graph *graph)
{
    int64_t count;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const dt__onnx_tensor *t = graph->initializer[i];
        if (!dt__onnx_is_real(t->data_type) || t->n_dims > DT_MAX_RANK ||
            !dt__product((int)t->n_dims, t->dims, &count) ||
            count > INT64_MAX - l->info->parameters) {
            continue;
        }
        l->info->parameters += count;
    }
}

static dt_status take_file(look *l)
{
    const DtOnnx__Model *m = l->file->model;
    char text[200];
    snprintf(text, sizeof text, "%.90s%s%.90s", m->producer_name,
             *m->producer_version == 0 ? "" : " ", m->producer_version);
    l->info->format = "ONNX";
    l->info->version = l->file->opset;
    l->info->producer = copy(l, text);
    if (l->info->producer == NULL) return DT_ERR_NOMEM;
    DT__TRY(take_values(l, m->graph->input, m->graph->n_input, true));
    DT__TRY(take_values(l, m->graph->output, m->graph->n_output, false));
    count_parameters(l, m->graph);
    return take_operators(l, m->graph);
}

/* ---- what import refuses --------------------------------------------------------------------- */

static dt_status refuse(void *user, const char *text)
{
    look *l = user;
    dt_graph_info *info = l->info;
    DT__TRY(DT__RESERVE(l->ctx, info->refusal, info->n_refusals, l->room));
    info->refusal[info->n_refusals] = copy(l, text);
    return info->refusal[info->n_refusals++] == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status walk(void *user, dt__onnx *g)
{
    g->note = refuse;
    g->user = user;
    return dt__onnx_walk(g);
}

/* All of it, where a walk finds it; else what the import says. */
static dt_status find_refusals(look *l, const char *path)
{
    dt_module *m = NULL;
    char text[DT__MESSAGE_SIZE];
    void *kept = NULL;
    dt_status s = dt_onnx_import(l->ctx, path, NULL, &m, NULL);
    dt_module_free(m);
    if (s == DT_OK || s == DT_ERR_NOMEM || s == DT_ERR_IO) return s;
    snprintf(text, sizeof text, "%s", dt_error(l->ctx));
    s = dt__onnx_with(l->file, NULL, &kept, walk, l);
    dt__block_list_free(l->ctx, &kept);
    if (s == DT_ERR_NOMEM) return s;
    return l->info->n_refusals > 0 ? DT_OK : refuse(l, text);
}

static dt_status inspect(look *l, const char *path, dt_status opened)
{
    char text[DT__MESSAGE_SIZE];
    const bool whole = l->file->model != NULL && l->file->model->graph != NULL;
    if (opened != DT_OK && (opened != DT_ERR_UNSUPPORTED || !whole)) return opened;
    snprintf(text, sizeof text, "%s", dt_error(l->ctx));
    DT__TRY(take_file(l));
    return opened == DT_OK ? find_refusals(l, path) : refuse(l, text);
}

dt_status dt_graph_inspect(dt_ctx *ctx, const char *path, dt_graph_info *out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    dt__onnx_file file;
    *out = (dt_graph_info){ .format = "" };
    look l = { .ctx = ctx, .info = out, .file = &file };
    dt_status s = dt__onnx_open(ctx, path, &file);
    s = inspect(&l, path, s);
    dt__onnx_close(&file);
    if (s != DT_OK) dt_graph_info_free(ctx, out);
    return s;
}

void dt_graph_info_free(dt_ctx *ctx, dt_graph_info *info)
{
    if (info == NULL) return;
    dt__release(ctx, info->refusal);
    dt__block_list_free(ctx, &info->memory);
    *info = (dt_graph_info){ .format = "" };
}
