/* Folding a batch norm into the convolution or linear layer before it (numerics §3), with f = γ /
 * sqrt(var + eps) of the running variance:
 *     batch statistics          W' = W f      b' = b f            y = norm(conv(x; W', b') / f)
 *     running statistics        W' = W f      b' = β + (b - μ) f      y = conv(x; W', b')
 * A batch norm is folded into a linear layer only if the layer's input is [batch, features]. With
 * batch statistics f is 1 for a channel whose γ is 0, and gets no gradient there: the norm's output
 * does not depend on f. All of this is computed by ops on the tape, so that gradients reach W, b, γ
 * and β, and a converted model has the bits of the prepared one. [Krishnamoorthi 2018, section
 * 3.2.2] */
#include "nn/fold.h"

#include "autograd/segment.h"
#include "nn/convolution/batch_norm_layers.h"
#include "nn/convolution/conv_layers.h"
#include "nn/layers/lora.h"

#include <detent/experimental/ops.h>

#include <math.h>

static dt_tensor *own(const dt_module *m, const char *name) { return dt__entry_find(m, name)->x; }

/* The value of a running statistic before this batch's update, also when a checkpointed segment
 * runs again. */
static dt_tensor *running(dt_tape *t, const dt_module *norm, const char *name)
{
    return dt__tape_save_read(t, own(norm, name));
}

void dt__set_norm(dt_module *layer, dt_module *norm)
{
    if (norm->normed != NULL) norm->normed->norm = NULL;
    layer->norm = norm;
    norm->normed = layer;
}

dt_status dt_module_folds(dt_module *layer, dt_module *norm)
{
    const dt__conv_state *s = layer == NULL ? NULL : dt__conv_state_of(layer);
    if (s == NULL || norm == NULL || !dt__is_batch_norm(norm)) {
        dt_ctx *ctx = layer != NULL ? layer->ctx : norm != NULL ? norm->ctx : NULL;
        return ctx == NULL
                   ? DT_ERR_ARG
                   : dt_fail(ctx, DT_ERR_ARG,
                             "folds: a batch norm is folded into a convolution, not %s into "
                             "%s",
                             norm == NULL ? "NULL" : norm->type->name,
                             layer == NULL ? "NULL" : layer->type->name);
    }
    if (own(norm, "weight")->count != s->layer.out) {
        return dt_fail(layer->ctx, DT_ERR_ARG, "folds: the norm has %lld channels, the layer %lld",
                       (long long)own(norm, "weight")->count, (long long)s->layer.out);
    }
    dt__set_norm(layer, norm);
    return DT_OK;
}

bool dt__takes_norm(const dt_module *layer)
{
    return dt__conv_state_of(layer) != NULL ||
           (layer->type == &dt__nn_linear && !dt__has_lora(layer));
}

bool dt__can_fold(const dt_module *layer, bool linear)
{
    return layer->norm != NULL && dt__is_batch_norm(layer->norm) && dt__takes_norm(layer) &&
           (linear || dt__conv_state_of(layer) != NULL);
}

bool dt__fold_is_live(const dt_module *layer)
{
    return layer->folding == DT__FOLDED && dt_is_training(layer->norm);
}

dt_tensor *dt__fold_factor(dt_tape *t, const dt_module *layer)
{
    const dt_module *norm = layer->norm;
    const dt_fold_factor_options options = { .eps =
                                                 ((const dt__batch_norm_layer *)norm->state)->eps,
                                             .keep = dt__fold_is_live(layer) };
    dt_tensor *f =
        dt_fold_factor(t, own(norm, "weight"), running(t, norm, "running_var"), &options);
    return options.keep ? dt_detach(t, f) : f;
}

double dt__fold_factor_at(const dt_module *layer, int64_t channel)
{
    const dt_module *norm = layer->norm;
    const float *weight = dt__values(own(norm, "weight")),
                *var = dt__values(own(norm, "running_var"));
    const double eps = ((const dt__batch_norm_layer *)norm->state)->eps;
    return weight[channel] / sqrt(var[channel] + eps);
}

int64_t dt__fold_channels(const dt_module *layer) { return own(layer->norm, "weight")->count; }

dt_tensor *dt__fold_size(dt_tape *t, const dt_module *layer, bool whole)
{
    dt_tensor *size = dt_abs(t, dt_detach(t, dt__fold_factor(t, layer)));
    return whole ? dt_max(t, size, 0, true, NULL) : size;
}

int64_t dt__unfolded_channels(const dt_module *layer)
{
    const dt_tensor *weight = own(layer->norm, "weight");
    int64_t n = 0;
    for (int64_t c = 0; c < weight->count && weight->dtype == DT_F32; c++) {
        n += ((const float *)dt__values(weight))[c] == 0;
    }
    return n;
}

#define AXES 3 /* parts of a split weight's channels: groups, inputs and outputs of a group */

/* The dims of the weight with a separate dimension for groups, and dims of the factor that
 * broadcast to it. s NULL: a linear layer. */
static int split(const dt__conv_state *s, const dt_tensor *weight, int64_t *dims, int64_t *factor)
{
    const int64_t groups = s == NULL ? 1 : s->layer.conv.groups;
    const int64_t in = (s == NULL ? weight->dims[1] : s->layer.in) / groups;
    const int64_t out = (s == NULL ? weight->dims[0] : s->layer.out) / groups;
    const int first = s != NULL && s->kind->transposed ? 1 : 2, second = 3 - first;
    dims[0] = factor[0] = groups;
    dims[first] = in;
    factor[first] = 1;
    dims[second] = factor[second] = out;
    for (int i = 2; i < weight->rank; i++) {
        dims[AXES + i - 2] = weight->dims[i];
        factor[AXES + i - 2] = 1;
    }
    return AXES + weight->rank - 2;
}

dt_tensor *dt__folded_weight(dt_tape *t, const dt_module *layer, dt_tensor *weight)
{
    int64_t dims[DT_MAX_RANK], factor[DT_MAX_RANK];
    const int rank = split(dt__conv_state_of(layer), weight, dims, factor);
    dt_tensor *f = dt_reshape(t, dt__fold_factor(t, layer), rank, factor);
    dt_tensor *w = dt_mul(t, dt_reshape(t, weight, rank, dims), f);
    return dt_reshape(t, w, weight->rank, weight->dims);
}

dt_tensor *dt__folded_bias(dt_tape *t, const dt_module *layer, dt_tensor *bias)
{
    const bool live = dt__fold_is_live(layer);
    if (live && bias == NULL) return NULL;
    dt_tensor *f = dt__fold_factor(t, layer);
    if (live) return dt_mul(t, bias, f);
    dt_tensor *mean = running(t, layer->norm, "running_mean");
    dt_tensor *middle = bias == NULL ? dt_neg(t, mean) : dt_sub(t, bias, mean);
    return dt_add(t, own(layer->norm, "bias"), dt_mul(t, middle, f));
}

static void identity(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    (void)t;
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = in[0];
}

static const dt_module_type removed_type = { .name = "folded", .forward = identity };

void dt__norm_remove(dt_module *norm, dt__removed_norm *out)
{
    *out =
        (dt__removed_norm){ norm, norm->type, norm->entries, norm->n_entries, norm->room_entries };
    norm->type = &removed_type;
    norm->entries = NULL;
    norm->n_entries = norm->room_entries = 0;
    dt__module_changed(norm);
}

void dt__norm_put_back(const dt__removed_norm *removed)
{
    dt_module *norm = removed->norm;
    norm->type = removed->type;
    norm->entries = removed->entries;
    norm->n_entries = removed->n_entries;
    norm->room_entries = removed->room_entries;
    dt__module_changed(norm);
}

void dt__norm_forget(const dt__removed_norm *removed)
{
    dt__entries_free(removed->norm->ctx, removed->entries, removed->n_entries);
}

bool dt__is_removed_norm(const dt_module *m) { return m->type == &removed_type; }
