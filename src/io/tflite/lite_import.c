/* dt_tflite_import: a TFLite file as a model of family `layers`; one of int8 is prepared for
 * devices (docs/numerics.md, section 8), with the scales and zero points of the file. */
#include "io/tflite/lite_import.h"

#include "core/system/open_file.h"
#include "core/system/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static dt_status add_input(dt__lite_import *m, int i)
{
    dt__onnx *g = m->g;
    const int tensor = m->v->in[i];
    const dt__vlite_tensor *t = &m->v->tensor[tensor];
    dt__onnx_layer *l = dt__onnx_memory(g, 1, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    const bool image = t->rank == 4, row = t->rank == 2;
    if ((!image && !row) || t->dims[0] != 1 ||
        (t->type != DT__VLITE_F32 && t->type != DT__VLITE_I8)) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: input %d must be floats or int8, [1, height, width, channels] or [1, "
                       "features]",
                       g->file->path, i);
    }
    static const int image_axes[] = { 0, 2, 3, 1 }, row_axes[] = { 0, 1, 2, 3 };
    dt__lite_place *p = &m->place[tensor];
    memcpy(p->axis, image ? image_axes : row_axes, sizeof p->axis);
    l->shape.rank = t->rank - 1;
    for (int d = 1; d < t->rank; d++) l->shape.dims[p->axis[d] - 1] = t->dims[d];
    l->name = dt__onnx_text(g, i == 0 ? "x" : "x%d", i + 1);
    if (l->name == NULL) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(g->ctx, g->layer, g->n_layers, g->room_layers));
    l->index = g->n_layers;
    g->layer[g->n_layers++] = l;
    p->layer = p->source = l;
    return DT_OK;
}

/* A tensor without layer after all operators were read is a fault of the file. */
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
        out[i] = p->layer;
        dt__onnx_mark(g, out[i]);
    }
    for (int i = 0; i < m->v->ins; i++) {
        if (g->layer[i]->live) continue;
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: nothing reads input %d", g->file->path, i);
    }
    return DT_OK;
}

static dt_status read(dt__onnx *g, void *user, dt_module **out, dt_layers_options **options,
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
    return m.coded > 0 ? dt__lite_prepare(&m, *out) : DT_OK;
}

static dt_status import(dt_ctx *ctx, const dt__onnx_file *f, const dt__span *bytes, dt_module **out,
                        dt_model_info *info)
{
    dt__vlite *v;
    const dt__vlite_limits limits = { .unknown = true };
    dt_status s = dt__vlite_open(ctx, f->path, bytes, &limits, &v);
    if (s == DT_OK) s = dt__onnx_model(f, NULL, read, v, out, info);
    dt__vlite_close(v);
    return s;
}

static dt_status map_and_import(dt_ctx *ctx, dt__onnx_file *f, int descriptor, dt_module **out,
                                dt_model_info *info)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(ctx, "read", f->path, errno);
    if (!S_ISREG(about.st_mode) || about.st_size == 0) {
        return dt_fail(ctx, DT_ERR_FORMAT, "%s: no TFLite model: it is empty, or no regular file",
                       f->path);
    }
    DT__TRY(dt__whole_size(ctx, f->path, about.st_size, &f->size));
    void *bytes = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) return dt__file_fail(ctx, "map", f->path, errno);
    const dt__span span = { bytes, f->size };
    const dt_status s = import(ctx, f, &span, out, info);
    munmap(bytes, f->size);
    return s;
}

dt_status dt_tflite_import(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    DT__NEED(ctx, path);
    dt_model_info own = { .family = NULL };
    dt__onnx_file f = { .ctx = ctx, .path = dt__path_tail(path), .whole = path };
    *out = NULL;
    if (info != NULL) *info = own;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(ctx, "open", f.path, errno);
    const dt_status s = map_and_import(ctx, &f, descriptor, out, &own);
    dt__sys_close(descriptor);
    if (s != DT_OK) {
        dt_module_free(*out);
        *out = NULL;
    }
    if (s == DT_OK && info != NULL) *info = own;
    else dt_model_info_free(ctx, &own);
    return s;
}
