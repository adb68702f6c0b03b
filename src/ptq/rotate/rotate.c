/* dt_rotate: rotates the residual stream of a language model without changing its function
 * [Ashkboos et al. 2024, QuaRot; Liu et al. 2024, SpinQuant].
 *
 * An rms norm without a gain commutes with an orthogonal R, norm(x R) = norm(x) R. So gains are
 * merged into the layers behind their norms, and R, of the width of the model, into all layers that
 * read or write the stream. A matrix P of each block is merged into the heads of values, and its
 * inverse into the output layer. W is [out, in]:
 *     embed_tokens                 E R
 *     q, k, gate, up, head         W diag(gain) R
 *     v                            (by head: P^T) W diag(gain) R      bias: by head b P
 *     o                            R^T W (by head: P)                 bias: b R
 *     down                         R^T W (by order: H)                bias: b R
 * H is block.hadamard's matrix, which multiplies the input of `down` in every pass, since the mlp's
 * activation does not commute with it. Products are in double, and each is rounded once. */
#include "ptq/rotate/rotate_learn.h"
#include "ptq/rotate/rotate_rows.h"
#include "ptq/rotate/rotation.h"

#include "autograd/write.h"
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "kernels/products/blas_library.h"
#include "nn/module.h"
#include "nn/families/family.h"
#include "qat/convert.h"

#include <detent/experimental/ptq.h>

#include <string.h>

typedef struct work {
    dt_ctx *ctx;
    const dt_llama_options *o;
    dt_module *m;                 /* the model that is rotated */
    int64_t head_width, hadamard; /* hadamard: order of the new matrices H; 0: none */
    dt__stream stream;
    double *r, *p; /* rotations of the stream, and of the heads of a block */
    float *gain;   /* [width] of a norm */
    /* rows to learn rotations from: of the stream, then of each block; NULL: they are drawn */
    dt__rows *rows;
} work;

/* ---- what can be rotated -------------------------------------------------------------------- */

static dt_status check_blocks(dt_ctx *ctx, const dt_llama_options *o)
{
    const dt_block_options b = dt__llama_block(o);
    if (b.norms == DT_BLOCK_NORMS_BEFORE) return DT_OK;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "rotate: block.norms: norms behind attention and mlp multiply the stream by "
                   "channel, which does not commute with a rotation; expected norms before them");
}

static dt_status check(dt_ctx *ctx, dt_module *m, const dt_llama_options *o,
                       const dt_rotate_options *how)
{
    if (strcmp(dt_module_type_of(m)->name, "llama") != 0) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "rotate: expected a model of family llama, with rms norms; this is a %s",
                       dt_module_type_of(m)->name);
    }
    if (dt_is_prepared(m) || dt_is_converted(m) || dt_has_lora(m)) {
        return dt_fail(ctx, DT_ERR_STATE, "rotate: expected a float model, this one %s",
                       dt_has_lora(m) ? "has adapters: merge them first"
                                      : "is quantized: rotation comes before");
    }
    if (how->hadamard != 0 && dt__llama_block(o).hadamard != 0) {
        return dt_fail(ctx, DT_ERR_STATE,
                       "rotate: the model's mlps have Hadamard matrices already");
    }
    return check_blocks(ctx, o);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* The tensor `name` of the module at path `layer` of m; NULL: there is none. */
static dt_tensor *tensor_at(dt_module *m, const char *layer, const char *name)
{
    dt_module *holder = dt_module_at(m, layer);
    const dt__entry *e = holder == NULL ? NULL : dt__entry_find(holder, name);
    return e == NULL ? NULL : e->x;
}

/* A weight as one matrix; the rows of experts follow each other. */
static dt__part whole(dt_tensor *w)
{
    const int64_t in = w->dims[w->rank - 1];
    return (dt__part){ dt_data_mut(w), w->count / in, in, in };
}

/* n columns (or rows) of x from `first` on. */
static dt__part columns_of(dt__part x, int64_t first, int64_t n)
{
    return (dt__part){ x.x + first, x.rows, n, x.pitch };
}

static dt__part rows_of(dt__part x, int64_t first, int64_t n)
{
    return (dt__part){ x.x + first * x.pitch, n, x.columns, x.pitch };
}

/* Copies the gain of a norm to w->gain, for the layers behind the norm, and sets it to 1. */
static dt_status take_gain(work *w, dt_module *m, const char *norm)
{
    const bool plus_one = dt__llama_block(w->o).norm_plus_one;
    dt_tensor *gain = tensor_at(m, norm, "weight");
    const float *x = dt_data(gain);
    for (int64_t i = 0; i < w->o->width; i++) w->gain[i] = plus_one ? 1 + x[i] : x[i];
    return dt_fill(gain, plus_one ? 0.0 : 1.0);
}

/* W diag(gain) R of a layer that reads the stream; gain NULL: 1. */
static dt_status rotate_reader(const work *w, dt_module *m, const char *layer, const float *gain)
{
    dt_tensor *weight = tensor_at(m, layer, "weight");
    if (weight == NULL) return DT_OK;
    const dt__part x = whole(weight);
    return dt__rotate_columns(w->ctx, &x, gain, w->r);
}

/* R^T W and b R of a layer that writes the stream. */
static dt_status rotate_writer(const work *w, dt_module *m, const char *layer)
{
    dt_tensor *weight = tensor_at(m, layer, "weight"), *bias = tensor_at(m, layer, "bias");
    if (weight == NULL) return DT_OK;
    const dt__part all = whole(weight);
    for (int64_t i = 0; i < all.rows; i += w->o->width) { /* of each expert */
        const dt__part x = rows_of(all, i, w->o->width);
        DT__TRY(dt__rotate_rows(w->ctx, &x, w->r));
    }
    if (bias == NULL) return DT_OK;
    const dt__part x = { dt_data_mut(bias), bias->count / w->o->width, w->o->width, w->o->width };
    return dt__rotate_columns(w->ctx, &x, NULL, w->r);
}

/* Merges P into the value projection, and its inverse into the output layer, head by head. */
static dt_status rotate_heads(const work *w, dt_module *block)
{
    const int64_t width = w->head_width;
    const dt__part v = whole(tensor_at(block, "self_attn.v_proj", "weight"));
    const dt__part out = whole(tensor_at(block, "self_attn.o_proj", "weight"));
    dt_tensor *bias = tensor_at(block, "self_attn.v_proj", "bias");
    for (int64_t i = 0; i < v.rows; i += width) {
        const dt__part x = rows_of(v, i, width);
        DT__TRY(dt__rotate_rows(w->ctx, &x, w->p));
    }
    for (int64_t i = 0; i < out.columns; i += width) {
        const dt__part x = columns_of(out, i, width);
        DT__TRY(dt__rotate_columns(w->ctx, &x, NULL, w->p));
    }
    if (bias == NULL) return DT_OK;
    const dt__part x = { dt_data_mut(bias), bias->count / width, width, width };
    return dt__rotate_columns(w->ctx, &x, NULL, w->p);
}

/* Merges the mlp's new matrix H into the layer behind it. */
static dt_status rotate_down(const work *w, dt_module *block)
{
    const dt__part down = whole(tensor_at(block, "mlp.down_proj", "weight"));
    const dt_tensor *hadamard = tensor_at(block, "mlp", "hadamard");
    const float *h = dt_data(hadamard);
    dt_status s = DT_OK;
    double *exact = dt__alloc_array(w->ctx, hadamard->count, sizeof *exact);
    if (exact == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < hadamard->count; i++) exact[i] = (double)h[i];
    for (int64_t i = 0; i < down.columns && s == DT_OK; i += w->hadamard) {
        const dt__part x = columns_of(down, i, w->hadamard);
        s = dt__rotate_columns(w->ctx, &x, NULL, exact);
    }
    dt__release(w->ctx, exact);
    return s;
}

/* ---- the model ------------------------------------------------------------------------------ */

static const char *const norms[] = { "input_layernorm", "post_attention_layernorm" };
static const char *const readers[][5] = {
    { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj" },
    { "mlp.gate_proj", "mlp.up_proj", "moe.router", "moe.w_gate", "moe.w_up" },
};
static const char *const writers[] = { "self_attn.o_proj", "mlp.down_proj", "moe.w_down" };

/* Makes the rotation of the stream (which = 0) or of the heads of block which - 1: drawn, then
 * learned if there are rows. */
static dt_status make_rotation(work *w, int64_t which, int64_t n, double *r)
{
    double before, after;
    dt__rotation_draw(n, &w->stream, r);
    const dt__rows *from = w->rows == NULL ? NULL : &w->rows[which];
    if (from == NULL || from->used == 0) return DT_OK;
    DT__TRY(dt__rotation_learn(w->ctx, from->used, n, from->x, r, &before, &after));
    if (which == 0) {
        dt__say(w->ctx, "rotate: the mean fourth power in the stream was %.3g, is %.3g", before,
                after);
    }
    return DT_OK;
}

static dt_status rotate_block(work *w, dt_module *block)
{
    for (int k = 0; k < DT__COUNT_OF(norms); k++) {
        DT__TRY(take_gain(w, block, norms[k]));
        for (int i = 0; i < DT__COUNT_OF(readers[k]) && readers[k][i] != NULL; i++) {
            DT__TRY(rotate_reader(w, block, readers[k][i], w->gain));
        }
    }
    if (w->hadamard > 0) DT__TRY(rotate_down(w, block));
    for (int i = 0; i < DT__COUNT_OF(writers); i++) DT__TRY(rotate_writer(w, block, writers[i]));
    DT__TRY(make_rotation(w, 1 + block->place, w->head_width, w->p));
    return rotate_heads(w, block);
}

static dt_status rotate_all(work *w)
{
    dt_module *body = dt_module_at(w->m, "model"), *layers = dt_module_at(body, "layers");
    DT__TRY(make_rotation(w, 0, w->o->width, w->r));
    DT__TRY(rotate_reader(w, body, "embed_tokens", NULL));
    for (int64_t i = 0; i < layers->n_children; i++) DT__TRY(rotate_block(w, layers->children[i]));
    DT__TRY(take_gain(w, body, "norm"));
    return rotate_reader(w, w->m, "lm_head", w->gain);
}

static dt_status check_finite(dt_ctx *ctx, const dt__entry *e)
{
    const float *values = dt_data(e->x);
    int64_t bad = -1;
    dt__kernels_of(ctx, DT_F32)->first_nonfinite(e->x->count, values, &bad);
    if (bad < 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_NUMERIC,
                   "rotate: %s: element %lld is %g; a rotation would spread it over all elements",
                   e->path, (long long)bad, (double)values[bad]);
}

/* Copies the values of `from`. A tied head gets its own copy; new Hadamard matrices are not in
 * `from`. */
static dt_status copy_values(dt_module *from, const work *w)
{
    DT__EACH_ENTRY(m, e, w->m) {
        dt_module *holder = dt_module_at(from, m->path);
        const dt__entry *x = holder == NULL ? NULL : dt__entry_find(holder, e->name);
        if (x == NULL && w->hadamard > 0 && e->kind == DT_BUFFER) continue;
        if (x == NULL || x->x->dtype != e->x->dtype || !dt__same_dims(x->x, e->x)) {
            return dt_fail(w->ctx, DT_ERR_ARG,
                           "rotate: the options are not those of the model: it has no %s of this "
                           "shape",
                           e->path);
        }
        dt__write_value(e->x, x->x);
        DT__TRY(check_finite(w->ctx, e));
    }
    return DT_OK;
}

static dt_status open(work *w, const dt_rotate_options *how)
{
    const int64_t n = w->o->width, own = w->head_width;
    DT__TRY(dt__blas_load(w->ctx));
    w->stream = dt__stream_of(how->seed, DT__FOR_ROTATION);
    w->r = dt__alloc_array(w->ctx, n * n, sizeof *w->r);
    w->p = dt__alloc_array(w->ctx, own * own, sizeof *w->p);
    w->gain = dt__alloc_array(w->ctx, n, sizeof *w->gain);
    if (w->r == NULL || w->p == NULL || w->gain == NULL) return DT_ERR_NOMEM;
    if (how->data == NULL) return DT_OK;
    w->rows = dt__alloc_zero(w->ctx, (size_t)(w->o->layers + 1) * sizeof *w->rows);
    if (w->rows == NULL) return DT_ERR_NOMEM;
    return dt__rotate_collect(w->m, how->data, w->o->layers, n, own, w->rows);
}

static void close(const work *w)
{
    for (int64_t i = 0; w->rows != NULL && i <= w->o->layers; i++) {
        dt__release(w->ctx, w->rows[i].x);
    }
    DT__RELEASE(w->ctx, w->rows, w->r, w->p, w->gain);
}

dt_status dt_rotate(dt_module *from, const dt_llama_options *options, const dt_rotate_options *how,
                    dt_module **out, dt_llama_options *rotated)
{
    DT__NEED4(dt_module_ctx(from), from, options, out, rotated);
    static const dt_rotate_options usual = { 0 };
    if (how == NULL) how = &usual;
    dt_ctx *ctx = from->ctx;
    *out = NULL;
    DT__TRY(check(ctx, from, options, how));
    DT__TRY(dt__kernels_open(ctx));
    *rotated = *options;
    rotated->tied = false;
    if (how->hadamard != 0) {
        rotated->block = dt__llama_block(options);
        rotated->block.given = true;
        rotated->block.hadamard = how->hadamard;
    }
    work w = { .ctx = ctx, .o = rotated, .hadamard = how->hadamard };
    DT__TRY(dt__family_twin(ctx, dt_family_named(ctx, "llama"), rotated, &w.m));
    w.head_width = options->head_width == 0 ? options->width / options->heads : options->head_width;
    dt_status s = copy_values(from, &w);
    if (s == DT_OK) s = open(&w, how);
    dt__team *const threads = dt__threads_enter(ctx);
    if (s == DT_OK) s = rotate_all(&w);
    dt__threads_leave(threads);
    close(&w);
    if (s == DT_OK) *out = w.m;
    else dt_module_free(w.m);
    return s;
}
