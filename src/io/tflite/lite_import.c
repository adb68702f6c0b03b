/* dt_tflite_import: reads a TFLite file as a model of family `layers`. A network of int8 only,
 * whose operators all exist as device layers, is prepared for devices (docs/numerics.md, section 8)
 * with the scales and zero points of the file; any other network is translated to an ONNX graph
 * (lite_nodes.h). */
#include "core/block_list.h"
#include "io/tflite/lite_import.h"

#include "core/system/atomic_file.h"
#include "data/file_map.h"
#include "io/tflite/lite_nodes.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static dt_status add_input(dt__lite_import *m, int i)
{
    dt__onnx *g = m->g;
    const int tensor = m->v->in[i];
    const dt__vlite_tensor *t = &m->v->tensor[tensor];
    dt__onnx_layer *l = dt__onnx_memory(g, 1, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    const bool image = t->rank == 4, row = t->rank == 2 || t->rank == 3;
    if ((!image && !row) || t->dims[0] != 1 ||
        (t->type != DT__VLITE_F32 && t->type != DT__VLITE_I8 && t->type != DT__VLITE_U8)) {
        return dt_fail(
            g->ctx, DT_ERR_UNSUPPORTED,
            "%s: input %d must be floats, int8 or uint8, [1, height, width, channels], [1, steps, "
            "features] or [1, features]",
            g->file->path, i);
    }
    static const int image_axes[] = { 0, 2, 3, 1 }, row_axes[] = { 0, 1, 2, 3 };
    dt__lite_place *p = &m->place[tensor];
    memcpy(p->axis, image ? image_axes : row_axes, sizeof p->axis);
    l->shape.rank = t->rank - 1;
    for (int d = 1; d < t->rank; d++) l->shape.dims[p->axis[d] - 1] = t->dims[d];
    l->name = dt__block_list_text(g->ctx, g->arena, i == 0 ? "x" : "x%d", i + 1);
    if (l->name == NULL) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(g->ctx, g->layer, g->n_layers, g->room_layers));
    l->index = g->n_layers;
    g->layer[g->n_layers++] = l;
    p->layer = p->source = l;
    return DT_OK;
}

/* A layer with an output's dimensions in the model's order: the file's order, but images have
 * channels first. */
static dt_status ordered(dt__onnx *g, const dt__lite_place *p, int rank, dt__onnx_layer **out)
{
    int order[4];
    bool moves = false;
    *out = p->layer;
    for (int i = 0; i < rank; i++) {
        order[i] = p->axis[rank == 4 && i > 0 ? (i == 1 ? 3 : i - 1) : i];
        moves |= order[i] != i;
    }
    g->node = p->layer->node;
    return moves ? dt__onnx_permuted(g, p->layer, order, out) : DT_OK;
}

/* The file is faulty if an output has no layer after all operators were read. */
static dt_status find_outputs(dt__lite_import *m, dt__onnx_layer *out[DT_MAX_OUT])
{
    dt__onnx *g = m->g;
    for (int i = 0; i < m->v->outs; i++) {
        const dt__lite_place *p = &m->place[m->v->out[i]];
        if (p->layer == NULL || p->layer->node == NULL) {
            return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                           "%s: output %d is not computed from an input", g->file->path, i);
        }
        if (p->flat[0] > 0) {
            return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                           "%s: output %d is a row of pixels in another order than here",
                           g->file->path, i);
        }
        DT__TRY(ordered(g, p, m->v->tensor[m->v->out[i]].rank, &out[i]));
        dt__onnx_mark(g, out[i]);
    }
    for (int i = 0; i < m->v->ins; i++) {
        if (g->layer[i]->live) continue;
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: nothing reads input %d", g->file->path, i);
    }
    return DT_OK;
}

static dt_status read_device(dt__onnx *g, void *user, dt_module **out, dt_layers_options **options,
                             const char **data)
{
    dt__lite_import m = { .g = g, .v = user };
    dt__onnx_layer *output[DT_MAX_OUT];
    (void)data;
    m.place = dt__onnx_memory(g, m.v->tensors, sizeof *m.place);
    if (m.place == NULL) return DT_ERR_NOMEM;
    if (m.v->ins < 1 || m.v->outs < 1) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: a model without inputs or outputs",
                       g->file->path);
    }
    for (int i = 0; i < m.v->ins; i++) DT__TRY(add_input(&m, i));
    DT__TRY(dt__lite_read_ops(&m));
    DT__TRY(find_outputs(&m, output));
    DT__TRY(dt__onnx_build(g, output, m.v->outs, out, options));
    return dt__lite_prepare(&m, *out);
}

dt_status dt__lite_open_with(dt_ctx *ctx, const char *path, dt__lite_work *work, void *user)
{
    void *map;
    dt__vlite *v = NULL;
    const dt__vlite_limits limits = { .unknown = true };
    dt__onnx_file f = { .ctx = ctx, .path = dt__path_tail(path), .whole = path };
    DT__TRY(dt__map_file(ctx, path, &map, &f.size));
    const dt__span whole = { map, f.size };
    dt_status s = map == NULL
                      ? dt_fail(ctx, DT_ERR_FORMAT, "%s: not a TFLite model: it is empty", f.path)
                      : dt__vlite_open(ctx, f.path, &whole, &limits, &v);
    if (s == DT_OK) s = dt__lite_fold(v);
    if (s == DT_OK) s = work(user, v, &f);
    dt__onnx_close(&f);
    dt__vlite_close(v);
    if (map != NULL) munmap(map, f.size);
    return s;
}

static bool has_codes(const dt__vlite *v)
{
    bool any = false;
    for (int64_t i = 0; i < v->ops; i++) {
        const dt__vlite_op *o = &v->op[i];
        any |= o->n_out > 0 && o->out[0] >= 0 && v->tensor[o->out[0]].type == DT__VLITE_I8;
    }
    return any;
}

typedef struct imported {
    dt_module **out;
    dt_model_info info;
} imported;

static void forget(dt_ctx *ctx, imported *to)
{
    dt_module_free(*to->out);
    *to->out = NULL;
    dt_model_info_free(ctx, &to->info);
}

/* Reads an int8 network; if that fails, translates the file to ONNX: floats between codes. */
static dt_status import_file(void *user, dt__vlite *v, dt__onnx_file *f)
{
    imported *to = user;
    char why[200] = "";
    if (has_codes(v)) {
        const dt_status s = dt__onnx_model(f, NULL, read_device, v, to->out, &to->info);
        if (s == DT_OK || s == DT_ERR_NOMEM) return s;
        snprintf(why, sizeof why, "%s", dt_error(v->ctx));
        forget(v->ctx, to);
    }
    DT__TRY(dt__lite_translate(v, f, NULL));
    DT__TRY(dt__onnx_model(f, NULL, dt__onnx_read_graph, NULL, to->out, &to->info));
    if (*why != 0) {
        dt__say(v->ctx,
                "%s: not a network of integers alone; its layers compute floats between codes, "
                "each of which can differ by one: %s",
                f->path, why);
    }
    return DT_OK;
}

dt_status dt_tflite_import(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info)
{
    DT__NEED3(ctx, ctx, out, path);
    imported to = { .out = out, .info = { .family = NULL } };
    *out = NULL;
    if (info != NULL) *info = to.info;
    const dt_status s = dt__lite_open_with(ctx, path, import_file, &to);
    if (s != DT_OK || info == NULL) dt_model_info_free(ctx, &to.info);
    else *info = to.info;
    if (s != DT_OK) {
        dt_module_free(*out);
        *out = NULL;
    }
    return s;
}

typedef struct verification {
    dt_module *m;
    const char *values;
    dt_onnx_options options;
    dt_onnx_differences *out;
} verification;

static dt_status verify_file(void *user, dt__vlite *v, dt__onnx_file *f)
{
    const verification *c = user;
    DT__TRY(dt__lite_translate(v, f, NULL));
    return dt__onnx_verify(c->m, f, c->values, &c->options, c->out);
}

dt_status dt_tflite_verify(dt_module *m, const char *path, const char *values, const char *expected,
                           dt_onnx_differences *out)
{
    DT__NEED3(dt_module_ctx(m), m, path, out);
    out->n = 0;
    verification v = { .m = m, .values = values, .options = { .expected = expected }, .out = out };
    return dt__lite_open_with(dt_module_ctx(m), path, verify_file, &v);
}
