/* dt_onnx_import: builds a model from the layers of a graph. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "nn/families/family.h"
#include "nn/module.h"

#include <detent/experimental/io.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- outputs --------------------------------------------------------------------------------- */

void dt__onnx_mark(dt__onnx *g, dt__onnx_layer *output)
{
    output->live = true;
    for (int64_t i = g->n_layers - 1; i >= 0; i--) {
        const dt__onnx_layer *l = g->layer[i];
        for (int k = 0; k < l->n_from && l->live; k++) g->layer[l->from[k]]->live = true;
    }
}

/* The layer of a graph output, with its dimensions in order. */
static dt_status output_of(dt__onnx *g, const char *name, dt__onnx_layer **out)
{
    const dt__onnx_value *v = dt__onnx_find(g, name);
    char text[DT__MESSAGE_SIZE];
    if (v == NULL || v->kind != DT__ONNX_COMPUTED) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the output '%.60s' is not computed from an input", g->file->path, name);
    }
    dt__onnx_value y;
    dt_status s = dt__onnx_rounded(g, v);
    y = *v;
    const int at = dt__onnx_batch_at(v);
    if (s == DT_OK && at > 0 && !dt__onnx_is_merged(v)) {
        dt__say(g->ctx,
                "%s: the output '%s' has the batch as dimension %d; the model's has it first",
                g->file->path, dt__shown(name, text), at);
        s = dt__onnx_ordered(g, &y);
        *out = dt__onnx_maker(g, &y);
    } else if (s == DT_OK) {
        s = dt__onnx_plain(g, v, out);
    }
    if (s == DT_ERR_NOMEM) return s;
    snprintf(text, sizeof text, "%s", dt_error(g->ctx));
    if (s == DT_OK) return (*out)->node == NULL ? dt__onnx_simple(g, "identity", *out, out) : s;
    return dt_fail(g->ctx, s, "%s: the output '%.60s' %s", g->file->path, name, text);
}

static dt_status find_outputs(dt__onnx *g, dt__onnx_layer *out[DT_MAX_OUT])
{
    const DtOnnx__Graph *graph = g->graph;
    if (graph->n_output < 1 || graph->n_output > DT_MAX_OUT) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: %zu outputs; 1 to %d are read",
                       g->file->path, graph->n_output, DT_MAX_OUT);
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        DT__TRY(output_of(g, graph->output[i]->name, &out[i]));
        dt__onnx_mark(g, out[i]);
    }
    for (int64_t i = 0; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        if (l->node == NULL && !l->live) {
            return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: nothing reads the input '%s'",
                           g->file->path, l->name);
        }
    }
    return DT_OK;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Lists the layers for the options. A layer whose only input is the layer before it does not name
 * its input. */
static dt_status list_layers(dt__onnx *g, dt_layers_options *o, int64_t n_inputs)
{
    const int64_t alone = n_inputs == 1 ? 0 : -1;
    int64_t before = alone;
    o->layers.v = dt__block_list_add(g->ctx, g->arena, (size_t)g->n_layers * sizeof *o->layers.v);
    if (o->layers.v == NULL) return DT_ERR_NOMEM;
    for (int64_t i = n_inputs; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        if (!l->live) continue;
        dt_layer_head *head = l->options;
        head->name = l->name;
        head->from.n = l->n_from == 1 && l->from[0] == before ? 0 : l->n_from;
        for (int k = 0; k < head->from.n; k++) head->from.v[k] = g->layer[l->from[k]]->name;
        o->layers.v[o->layers.n++] = (dt_list_item){ &l->type->item, l->options };
        before = i;
    }
    return DT_OK;
}

static dt_status make_options(dt__onnx *g, dt__onnx_layer *const *out, int n_out,
                              dt_layers_options **options)
{
    dt_layers_options *o = dt__block_list_add(g->ctx, g->arena, sizeof *o);
    if (o == NULL) return DT_ERR_NOMEM;
    *options = o;
    int64_t n = 0;
    while (n < g->n_layers && g->layer[n]->node == NULL) {
        const dt__onnx_layer *l = g->layer[n];
        o->input.name[n] = l->name;
        o->input.shape[n].n = l->shape.rank;
        memcpy(o->input.shape[n++].v, l->shape.dims, (size_t)l->shape.rank * sizeof(int64_t));
    }
    o->input.n = (int)n;
    DT__TRY(list_layers(g, o, n));
    const void *last = o->layers.v[o->layers.n - 1].options;
    if (n_out == 1 && out[0]->options == last) return DT_OK;
    for (int i = 0; i < n_out; i++) o->output.v[o->output.n++] = out[i]->name;
    return DT_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The module of a layer. The search starts at child *next, as layers are mostly in order. */
static dt_module *module_of(dt_module *m, const char *name, int64_t *next)
{
    if (*next < m->n_children && strcmp(m->children[*next]->name, name) == 0) {
        return m->children[(*next)++];
    }
    return dt_module_at(m, name);
}

#define PIECE ((size_t)16 << 20)

/* Copies, and thereby reads, bytes of the mapped file. */
static void copy(dt_ctx *ctx, char *to, const char *from, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        memcpy(to + at, from + at, n);
        dt__did_work(ctx, DT__COPY, (double)n);
    }
}

static dt_status load_layer(const dt__onnx *g, const dt__onnx_layer *l, dt_module *own)
{
    if (own == NULL) return dt_error_status(g->ctx);
    for (int i = 0; i < l->n_weights; i++) {
        const dt__onnx_weight *w = &l->weight[i];
        dt_tensor *x = dt_param(own, w->path);
        if (x == NULL) return dt_error_status(g->ctx);
        if (dt_count(x) != w->count) {
            return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: %s.%s has %lld numbers; expected %lld",
                           g->file->path, l->name, w->path, (long long)w->count,
                           (long long)dt_count(x));
        }
        const void *from = dt__onnx_bytes(g->file, w->data);
        copy(g->ctx, dt_data_mut(x), from, (size_t)w->count * sizeof *w->data);
    }
    return DT_OK;
}

/* Frees copies of large tensors before the model gets memory. Not for quantized models, as scales
 * of their weights are read later. */
static void give_back(const dt__onnx *g)
{
    bool quantized = false;
    for (int64_t i = 0; i < g->n_layers; i++) {
        quantized = quantized || g->layer[i]->codes != NULL || g->layer[i]->input != NULL;
    }
    if (!quantized) dt__onnx_give_back(g->file);
}

/* Plans progress: these weights are all that is left to read of the file. */
static void plan_load(const dt__onnx *g)
{
    double bytes = 0;
    for (int64_t i = 0; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        for (int k = 0; k < l->n_weights && l->live; k++) {
            bytes += (double)l->weight[k].count * sizeof *l->weight[k].data;
        }
    }
    static const dt__work_of over[] = { DT__READ, DT__NODES, DT__COPY };
    for (int i = 0; i < DT__COUNT_OF(over); i++) dt__cut_work(g->ctx, over[i]);
    dt__plan_work(g->ctx, DT__COPY, bytes);
}

static dt_status load(const dt__onnx *g, dt_module *m)
{
    plan_load(g);
    int64_t next = 0;
    for (int64_t i = 0; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        if (l->live && l->node != NULL) DT__TRY(load_layer(g, l, module_of(m, l->name, &next)));
    }
    return DT_OK;
}

dt_status dt__onnx_layers(dt__onnx *g, dt__onnx_layer *output[DT_MAX_OUT])
{
    DT__TRY(dt__onnx_walk(g));
    DT__TRY(find_outputs(g, output));
    return dt__onnx_name_layers(g);
}

dt_status dt__onnx_build(dt__onnx *g, dt__onnx_layer *const *outputs, int n, dt_module **out,
                         dt_layers_options **options)
{
    DT__TRY(dt__onnx_name_layers(g));
    DT__TRY(make_options(g, outputs, n, options));
    give_back(g);
    DT__TRY(dt_layers_create(g->ctx, *options, out));
    return load(g, *out);
}

dt_status dt__onnx_read_graph(dt__onnx *g, void *user, dt_module **out, dt_layers_options **options,
                              const char **data)
{
    dt__onnx_layer *output[DT_MAX_OUT];
    (void)user;
    DT__TRY(dt__onnx_walk(g));
    DT__TRY(find_outputs(g, output));
    DT__TRY(dt__onnx_build(g, output, (int)g->graph->n_output, out, options));
    DT__TRY(dt__onnx_describe(g, *options, output, data));
    return dt__onnx_prepare(g, *out);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* A limit on the model's memory, as a hostile file could have any extents. */
#define SLACK ((size_t)1 << 30)

static dt_status work_within(dt__onnx *g, dt__onnx_work *work, void *user)
{
    dt_ctx *ctx = g->ctx;
    dt__pool_limit(ctx, g->file->size, DT__ONNX_GROWTH, SLACK);
    const dt_status s = work(user, g);
    ctx->pool.limit = 0;
    if (s != DT_ERR_NOMEM || !ctx->pool.limited) return s;
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: it describes a model many times as large as the file",
                   g->file->path);
}

/* Rewrites a graph before it is read. */
static dt_status settle(dt__onnx *g)
{
    if (g->graph == NULL) return DT_OK;
    DT__TRY(dt__onnx_put_shapes(g));
    return dt__onnx_choose(g);
}

static dt_status with_graph(const dt__onnx *from, bool whole, dt__onnx_work *work, void *user)
{
    const dt__onnx_file *f = from->file;
    dt__onnx g = *from;
    dt__stream streams[DT__PURPOSES];
    const bool blank = f->ctx->blank;
    memcpy(streams, f->ctx->stream, sizeof streams);
    f->ctx->blank = true;
    dt_status s = dt_tape_create(f->ctx, &g.tape);
    if (s == DT_OK) {
        g.tape->no_grad = g.tape->shapes_only = true;
        if (whole) s = settle(&g);
        if (s == DT_OK) s = work_within(&g, work, user);
    }
    f->ctx->blank = blank;
    memcpy(f->ctx->stream, streams, sizeof streams);
    dt_tape_free(g.tape);
    dt__block_list_free(f->ctx, &g.blocks);
    dt__release(f->ctx, g.layer);
    return s;
}

dt_status dt__onnx_with(const dt__onnx_file *f, const dt_onnx_options *options, void **arena,
                        dt__onnx_work *work, void *user)
{
    static const dt_onnx_options none = { .n_names = 0 };
    const dt__onnx g = { .ctx = f->ctx,
                         .file = f,
                         .options = options == NULL ? &none : options,
                         .graph = f->model == NULL ? NULL : f->model->graph,
                         .arena = arena };
    return with_graph(&g, true, work, user);
}

dt_status dt__onnx_try(const dt__onnx *g, void **arena, dt__onnx_work *work, void *user)
{
    const dt__onnx own = {
        .ctx = g->ctx, .file = g->file, .options = g->options, .graph = g->graph, .arena = arena
    };
    return with_graph(&own, false, work, user);
}

/* A model that is being made. */
typedef struct made {
    dt__onnx_read *read;
    void *user;
    dt_module **m;
    dt_model_info *info;
    dt_layers_options *options;
} made;

static dt_status make(void *user, dt__onnx *g)
{
    made *to = user;
    return to->read(g, to->user, to->m, &to->options, &to->info->data);
}

dt_status dt__onnx_model(const dt__onnx_file *f, const dt_onnx_options *how, dt__onnx_read *read,
                         void *user, dt_module **out, dt_model_info *info)
{
    made to = { .read = read, .user = user, .m = out, .info = info };
    const dt_status s = dt__onnx_with(f, how, &info->memory, make, &to);
    info->family = &dt__family_layers;
    info->options = to.options;
    return s;
}

/* Plans progress: each weight is read by at least one node, and copied into the model. */
static void expect_work(dt_ctx *ctx, const char *path)
{
    struct stat about;
    if (path == NULL || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return;
    dt__expect_work(ctx, DT__NODES, (double)about.st_size / sizeof(float));
    dt__expect_work(ctx, DT__COPY, (double)about.st_size);
}

dt_status dt_onnx_import(dt_ctx *ctx, const char *path, const dt_onnx_options *options,
                         dt_module **out, dt_model_info *info)
{
    DT__NEED2(ctx, ctx, out);
    dt__onnx_file file;
    dt_model_info own = { .family = NULL };
    *out = NULL;
    if (info != NULL) *info = own;
    expect_work(ctx, path);
    dt_status s = dt__onnx_open(ctx, path, &file);
    if (s == DT_OK) s = dt__onnx_model(&file, options, dt__onnx_read_graph, NULL, out, &own);
    dt__onnx_close(&file);
    if (s != DT_OK) {
        dt_module_free(*out);
        *out = NULL;
    }
    if (s == DT_OK && info != NULL) *info = own;
    else dt_model_info_free(ctx, &own);
    return s;
}
