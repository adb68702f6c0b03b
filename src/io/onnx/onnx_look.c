/* Lists the contents of an ONNX file, and all that import refuses in it, for dt_graph_inspect. */
#include "core/block_list.h"
#include "io/graph_info.h"
#include "io/onnx/onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static dt_status take_value(dt__look *l, bool output, const DtOnnx__ValueInfo *v)
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
    return dt__look_value(l, output, v->name, type_text(t == NULL ? 0 : t->elem_type),
                          shape == NULL ? "unknown" : text);
}

static dt_status take_node(dt__look *l, const dt__onnx_node *n)
{
    char text[200];
    const bool standard = *n->domain == 0 || strcmp(n->domain, "ai.onnx") == 0;
    snprintf(text, sizeof text, "%.90s%s%.90s", standard ? "" : n->domain, standard ? "" : ".",
             n->op_type);
    const bool known = standard && dt__onnx_operator_of(n->op_type) != NULL;
    return dt__look_operator(
        l, text, known || dt__onnx_is_expanded(n) || dt__onnx_is_loop(n) || dt__onnx_is_if(n));
}

static void count_parameters(dt__look *l, const DtOnnx__Graph *graph)
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

static dt_status take_file(dt__look *l, const dt__onnx_file *file)
{
    const DtOnnx__Model *m = file->model;
    const DtOnnx__Graph *graph = m->graph;
    char text[200];
    snprintf(text, sizeof text, "%.90s%s%.90s", m->producer_name,
             *m->producer_version == 0 ? "" : " ", m->producer_version);
    l->info->format = "ONNX";
    l->info->version = file->opset;
    l->info->producer = dt__look_copy(l, text);
    if (l->info->producer == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (dt__onnx_is_initializer(graph, graph->input[i]->name)) continue;
        DT__TRY(take_value(l, false, graph->input[i]));
    }
    for (size_t i = 0; i < graph->n_output; i++) DT__TRY(take_value(l, true, graph->output[i]));
    for (size_t i = 0; i < graph->n_node; i++) DT__TRY(take_node(l, graph->node[i]));
    count_parameters(l, graph);
    return DT_OK;
}

static dt_status refuse(void *user, const char *text) { return dt__look_refusal(user, text); }

static dt_status walk(void *user, dt__onnx *g)
{
    g->note = refuse;
    g->user = user;
    return dt__onnx_walk(g);
}

dt_status dt__onnx_look_faults(dt__look *l, const dt__onnx_file *file)
{
    void *arena = NULL;
    const dt_status s = dt__onnx_with(file, NULL, &arena, walk, l);
    dt__block_list_free(l->ctx, &arena);
    return s;
}

/* Finds all refused nodes by reading the graph; otherwise reports the import's error. */
static dt_status find_refusals(dt__look *l, const dt__onnx_file *file, const char *path)
{
    dt_module *m = NULL;
    char text[DT__MESSAGE_SIZE];
    const dt_status s = dt_onnx_import(l->ctx, path, NULL, &m, NULL);
    dt_module_free(m);
    if (s == DT_OK || s == DT_ERR_NOMEM || s == DT_ERR_IO) return s;
    snprintf(text, sizeof text, "%s", dt_error(l->ctx));
    if (dt__onnx_look_faults(l, file) == DT_ERR_NOMEM) return DT_ERR_NOMEM;
    return l->info->n_refusals > 0 ? DT_OK : dt__look_refusal(l, text);
}

static dt_status look(dt__look *l, const dt__onnx_file *file, const char *path, dt_status opened)
{
    char text[DT__MESSAGE_SIZE];
    const bool whole = file->model != NULL && file->model->graph != NULL;
    if (opened != DT_OK && (opened != DT_ERR_UNSUPPORTED || !whole)) return opened;
    snprintf(text, sizeof text, "%s", dt_error(l->ctx));
    DT__TRY(take_file(l, file));
    return opened == DT_OK ? find_refusals(l, file, path) : dt__look_refusal(l, text);
}

dt_status dt__onnx_look(dt__look *l, const char *path)
{
    dt__onnx_file file;
    dt_status s = dt__onnx_open(l->ctx, path, &file);
    s = look(l, &file, path, s);
    dt__onnx_close(&file);
    return s;
}
