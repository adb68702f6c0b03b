/* Collects the quantized linear layers of a Llama, Qwen2, Qwen3 or Mixtral, and refuses what
 * folders of transformers cannot store. */
#include "export/hf/hf_quant.h"

#include "export/exporters.h"
#include "nn/module.h"
#include "qat/prepare.h"
#include "qat/quantized.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct collecting {
    dt__hf_quants *to;
    dt__refusals refused;
} collecting;

/* Why an input's quantization is refused. NULL: it is int8, asymmetric, per token and dynamic, or
 * blocks as in compressed-tensors. */
static const char *refused_input(const collecting *c, const dt_quant_spec *q)
{
    const bool same = q->scheme == DT_SCHEME_NVFP4 || q->scheme == DT_SCHEME_MXFP4_NEAR ||
                      q->scheme == DT_SCHEME_MXFP8_NEAR;
    if (c->to->floats && dt__levels_of(q) != NULL) {
        return same ? NULL
                    : "its input is in blocks whose scales transformers would round as "
                      "mxfp4_near and mxfp8_near do";
    }
    if (q->range != DT_RANGE_DYNAMIC || q->granularity != DT_PER_TOKEN) {
        return "its input has a static or learned range, or blocks; those of tokens are held";
    }
    if (q->bits != 8 || q->scheme != DT_SCHEME_ASYMMETRIC) {
        return "its input is not int8 asymmetric";
    }
    return NULL;
}

static const char *refused_weight(const collecting *c, const dt_quant_spec *q, const dt_tensor *x)
{
    if (x->rank != 2 && !c->to->experts) {
        return "experts are one parameter in transformers, which torchao does not quantize";
    }
    if (dt__real_of(q) != NULL && !(c->to->floats && dt__real_of(q) == &dt__e4m3)) {
        return "its codes are floats, which the format does not hold";
    }
    if (x->rank != 2 && dt__has_zero(q)) {
        return "its experts have zero points, which transformers does not read (scheme: symmetric)";
    }
    if (q->granularity == DT_PER_GROUP && x->dims[x->rank - 1] % q->group_size != 0) {
        return "group_size does not divide the columns of its weight";
    }
    if (dt_is_packed(x) && dt__codes_op_groups(((const dt__packed *)x->ext)->codes) > 0) {
        return "its columns are ordered (g_idx)";
    }
    return NULL;
}

/* transformers decompresses all experts with one scheme. */
static bool differs_from_experts(const dt__hf_quants *all, const dt__hf_quant *q)
{
    for (int64_t i = 0; i < all->n && q->x->rank != 2; i++) {
        if (all->at[i].x->rank != 2 && all->at[i].kind != q->kind) return true;
    }
    return false;
}

static bool same_kind(const dt__hf_quant *a, const dt__hf_quant *b)
{
    return a->weight.bits == b->weight.bits && a->group == b->group && a->whole == b->whole &&
           a->has_input == b->has_input && (!a->has_input || a->input.scheme == b->input.scheme) &&
           dt__has_zero(&a->weight) == dt__has_zero(&b->weight) &&
           dt__levels_of(&a->weight) == dt__levels_of(&b->weight);
}

static dt_status add_quantized(collecting *c, const char *path, dt_module *m, const dt_tensor *x)
{
    dt__hf_quants *to = c->to;
    const dt__input_hook *hook = dt__input_hook_of(m);
    dt__hf_quant q = {
        .path = path, .x = x, .weight = *dt__quant_of(x), .has_input = hook != NULL
    };
    q.weight.bits = dt__code_bits(&q.weight); /* codes of levels are also integers */
    const char *why = refused_weight(c, &q.weight, x);
    if (why == NULL && hook != NULL) why = refused_input(c, &hook->quant);
    if (hook != NULL) q.input = hook->quant;
    if (hook != NULL && q.input.scheme == DT_SCHEME_NVFP4) {
        q.input_global = hook->range == NULL ? 1 : *(const float *)dt__values(hook->range->scale);
    }
    if (why != NULL) dt__refusals_add_place(&c->refused, path, why);
    if (q.weight.granularity == DT_PER_GROUP) q.group = q.weight.group_size;
    q.whole = q.weight.granularity == DT_PER_TENSOR;
    q.kind = to->kinds;
    for (int64_t i = 0; i < to->n; i++) {
        if (same_kind(&to->at[i], &q)) q.kind = to->at[i].kind;
    }
    if (q.kind == to->kinds) to->kinds++;
    if (differs_from_experts(to, &q)) {
        dt__refusals_add_place(&c->refused, path, "experts are quantized in several ways");
    }
    DT__TRY(DT__RESERVE(to->ctx, to->at, to->n, to->room));
    to->at[to->n++] = q;
    return DT_OK;
}

/* With a tied embedding, the head is a linear layer; the embedding is a table. */
static dt_status collect(collecting *c, const char *path, dt_module *m)
{
    dt__hf_quants *to = c->to;
    const dt__entry *weight = dt__entry_find(m, "weight");
    const bool is_table = strcmp(dt_module_type_of(m)->name, "embedding") == 0;
    if (weight == NULL || is_table || weight->x->rank < 2) return DT_OK;
    if (dt__quant_of(weight->x) != NULL) return add_quantized(c, path, m, weight->x);
    DT__TRY(DT__RESERVE(to->ctx, to->plain, to->n_plain, to->room_plain));
    to->plain[to->n_plain++] = path;
    return DT_OK;
}

dt_status dt__hf_quants_of(const dt_export_call *call, const char *format, dt__hf_quants *out)
{
    collecting c = { .to = out };
    *out = (dt__hf_quants){ .ctx = call->ctx, .experts = out->experts, .floats = out->floats };
    DT__TRY(dt__hf_check(call->ctx, call->info, true));
    dt_status s = DT_OK;
    DT__EACH_MODULE(m, call->m) {
        if (s == DT_OK) s = collect(&c, dt__path_within(call->m, m->path), m);
    }
    if (s == DT_OK && out->n == 0) {
        dt__refusals_add(&c.refused, "no linear layer is quantized; format hf holds floats");
    }
    if (s == DT_OK)
        s = dt__refusals_end(call->ctx, &c.refused, DT_ERR_UNSUPPORTED, DT__CANNOT_EXPRESS, format);
    if (s != DT_OK) dt__hf_quants_free(out);
    return s;
}

void dt__hf_quants_free(dt__hf_quants *q)
{
    DT__RELEASE(q->ctx, q->at, (void *)q->plain);
    *q = (dt__hf_quants){ .ctx = q->ctx };
}

const dt__hf_quant *dt__hf_quant_of(const dt__hf_quants *q, const char *name)
{
    for (int64_t i = 0; i < q->n; i++) {
        const size_t n = strlen(q->at[i].path);
        if (strncmp(q->at[i].path, name, n) == 0 && strcmp(name + n, ".weight") == 0) {
            return &q->at[i];
        }
    }
    return NULL;
}

const dt__hf_quant *dt__hf_kind(const dt__hf_quants *q, int kind)
{
    int64_t i = 0;
    while (q->at[i].kind != kind) i++;
    return &q->at[i];
}

size_t dt__hf_bytes(const char *folder)
{
    char path[PATH_MAX];
    struct stat about;
    const int n = snprintf(path, sizeof path, "%s/" DT__HF_SINGLE, folder);
    return n < (int)sizeof path && stat(path, &about) == 0 ? (size_t)about.st_size : 0;
}

dt_status dt__hf_rows(dt__saving *keep, const dt_tensor *x, dt_code_rows *rows)
{
    const dt__packed *packed = x->ext;
    const dt__panel_layout *l = &packed->codes->layout;
    const size_t blocks = (size_t)(l->rows * l->groups);
    *rows = (dt_code_rows){ .codes = dt__saving_keep(keep, (size_t)(l->rows * l->columns)),
                            .scale = dt__saving_keep(keep, blocks * sizeof(float)) };
    const bool has_zero = dt__has_zero(&packed->quant);
    if (has_zero) rows->zero_point = dt__saving_keep(keep, blocks);
    if (rows->codes == NULL || rows->scale == NULL || (has_zero && rows->zero_point == NULL)) {
        return DT_ERR_NOMEM;
    }
    dt__codes_to_rows(packed->codes, rows);
    return DT_OK;
}
