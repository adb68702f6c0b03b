/* Tensors of a GGUF file: values in F32 or F16, and codes in blocks with an f16 scale. Blocks have
 * 32 elements, Q4_0 and Q8_0; or, if groups of 2 or 3 bits have as many, 256, Q2_K and Q3_K; or, if
 * --type requests it, 256, 128 or 64, TQ1_0, TQ2_0, Q1_0 and Q2_0. Groups that are multiples of a
 * block, and whole rows, repeat their scale. */
#include "core/block_list.h"
#include "core/text/byte_order.h"
#include "core/text/half.h"
#include "export/gguf/gguf_put.h"
#include "nn/module.h"
#include "qat/quantized.h"
#include "qat/schemes/mx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK DT__GGUF_BLOCK

/* A tensor that is being made from one or several tensors of the model. */
typedef struct making {
    dt__gguf_put *p;
    const dt__gguf_name *name;
    char prefix[32]; /* of the paths of its parts */
    char label[64];  /* its name in the file */
    dt_tensor *part[3];
    int n_parts;
    const dt__gguf_type *type;
    int64_t rows, columns; /* of all parts together */
} making;

/* ---- which type ----------------------------------------------------------------------------- */

static void refuse(making *k, const dt_tensor *x, const char *why)
{
    dt__refusals_add_place(&k->p->refused, dt_param_path(k->p->call->m, x), why);
}

/* Whether each block of `elements` elements has one scale. */
static bool has_blocks(const dt_quant_spec *q, int64_t columns, int elements)
{
    const bool whole = q->granularity != DT_PER_GROUP || q->group_size % elements == 0;
    return whole && columns % elements == 0;
}

static bool is_ternary(const dt_quant_spec *q) { return q->scheme == DT_SCHEME_TERNARY; }
static bool is_binary(const dt_quant_spec *q) { return q->scheme == DT_SCHEME_BINARY; }
static bool has_four_levels(const dt_quant_spec *q)
{
    return dt__qmin(q) >= -2 && dt__qmax(q) <= 1;
}

/* Types with few levels, which --type requests. */
static const struct few {
    int wanted;
    uint32_t type;
    bool (*holds)(const dt_quant_spec *q);
    const char *what;
} few[] = {
    { DT_GGUF_TQ1_0, DT__GGUF_TQ1_0, is_ternary, "scheme ternary" },
    { DT_GGUF_TQ2_0, DT__GGUF_TQ2_0, is_ternary, "scheme ternary" },
    { DT_GGUF_Q2_0, DT__GGUF_Q2_0, has_four_levels,
      "codes from -2 to 1, of scheme ternary or of 2 bits" },
    { DT_GGUF_Q1_0, DT__GGUF_Q1_0, is_binary, "scheme binary" },
};

static const struct few *few_of(int wanted)
{
    for (int i = 0; i < DT__COUNT_OF(few); i++) {
        if (few[i].wanted == wanted) return &few[i];
    }
    return NULL;
}

/* FP4 in blocks with an exponent; with --type f32 or f16 their values are stored. */
static bool is_mxfp4(const dt_quant_spec *q) { return dt__levels_of(q) == &dt__mx_fp4; }

/* The block type: 32 elements or, for 2 and 3 bits, 256. */
static int type_of_codes(const dt_quant_spec *q, int64_t columns, int wanted)
{
    if (is_mxfp4(q)) return DT__GGUF_MXFP4;
    if (few_of(wanted) != NULL) return (int)few_of(wanted)->type;
    if (wanted == DT_GGUF_Q8_0 || dt__code_bits(q) > 4) return DT__GGUF_Q8_0;
    const bool lengthy = has_blocks(q, columns, DT__GGUF_LONG_BLOCK);
    if (wanted == DT_GGUF_Q4_0 || q->bits == 4 || !lengthy) return DT__GGUF_Q4_0;
    if (is_ternary(q)) return DT__GGUF_TQ2_0;
    return q->bits <= 2 ? DT__GGUF_Q2_K : DT__GGUF_Q3_K;
}

/* The block type for a quantized weight; NULL, with a refusal. */
static const dt__gguf_type *block_type(making *k, const dt_tensor *x)
{
    char why[160] = "";
    const dt_quant_spec *q = dt__quant_of(x);
    const int wanted = k->p->call->options->gguf_type;
    const struct few *of_few = few_of(wanted);
    const int64_t columns = x->dims[x->rank - 1];
    if (columns % BLOCK != 0) {
        snprintf(why, sizeof why, "rows of %lld values; blocks of llama.cpp have %d",
                 (long long)columns, BLOCK);
    } else if (q->granularity == DT_PER_GROUP && q->group_size % BLOCK != 0) {
        snprintf(why, sizeof why, "group_size %lld; blocks of llama.cpp have %d values",
                 (long long)q->group_size, BLOCK);
    } else if (dt__has_zero(q)) {
        snprintf(why, sizeof why, "scheme %s has zero points; blocks of llama.cpp here have none",
                 dt__scheme_of(q->scheme)->name);
    } else if (dt__real_of(q) != NULL) {
        snprintf(why, sizeof why,
                 "scheme %s; blocks of llama.cpp hold no floats of 6 or 8 bits: --type f32 holds "
                 "the values",
                 dt__scheme_of(q->scheme)->name);
    } else if (is_mxfp4(q) && wanted != DT_GGUF_TRAINED) {
        snprintf(why, sizeof why, "scheme %s; --type trained holds it as MXFP4",
                 dt__scheme_of(q->scheme)->name);
    } else if (!is_mxfp4(q) && dt__scale_dtype(q) != DT_SCALE_F16) {
        snprintf(
            why, sizeof why,
            "scales of blocks are f16 (scale_dtype: f16, or scheme: q4_0, in training); --type "
            "f16 or f32 holds any");
    } else if (wanted == DT_GGUF_Q4_0 && dt__code_bits(q) > 4) {
        snprintf(why, sizeof why, "%d bits; Q4_0 has 4", dt__code_bits(q));
    } else if (of_few != NULL && !of_few->holds(q)) {
        snprintf(why, sizeof why, "scheme %s of %d bits; %s holds %s",
                 dt__scheme_of(q->scheme)->name, dt__code_bits(q),
                 dt__gguf_type_of(of_few->type)->name, of_few->what);
    } else if (of_few != NULL &&
               !has_blocks(q, columns, dt__gguf_type_of(of_few->type)->elements)) {
        snprintf(why, sizeof why,
                 "rows of %lld values, or their groups, are no blocks of %d, which %s has",
                 (long long)columns, dt__gguf_type_of(of_few->type)->elements,
                 dt__gguf_type_of(of_few->type)->name);
    } else if (dt_is_packed(x) && dt__codes_op_groups(((const dt__packed *)x->ext)->codes) > 0) {
        snprintf(why, sizeof why, "its columns are ordered (g_idx)");
    }
    if (why[0] == 0) return dt__gguf_type_of((uint32_t)type_of_codes(q, columns, wanted));
    refuse(k, x, why);
    return NULL;
}

/* Position embeddings and routers of experts are F32, as in llama.cpp's own files. */
static const dt__gguf_type *type_of(making *k, const dt_tensor *x)
{
    const int wanted = k->p->call->options->gguf_type;
    const bool is_block = wanted != DT_GGUF_F32 && wanted != DT_GGUF_F16;
    const bool stays = strcmp(k->name->theirs, "ffn_gate_inp.weight") == 0 ||
                       strcmp(k->name->theirs, "position_embd.weight") == 0;
    if (dt__quant_of(x) != NULL && is_block) return block_type(k, x);
    return dt__gguf_type_of(wanted == DT_GGUF_F16 && x->rank > 1 && !stays ? DT__GGUF_F16
                                                                           : DT__GGUF_F32);
}

/* ---- finding ------------------------------------------------------------------------------- */

/* The number of elements of a bias that the model lacks. */
static int64_t missing_rows(const making *k, const char *path)
{
    char weight[128];
    const char *dot = strrchr(path, '.');
    snprintf(weight, sizeof weight, "%.*s.weight", (int)(dot - path), path);
    const dt_tensor *x = dt_param(k->p->call->m, weight);
    return x == NULL ? 0 : x->dims[0];
}

static dt_status find(making *k)
{
    char path[128];
    k->type = NULL;
    for (; k->n_parts < 3 && k->name->ours[k->n_parts] != NULL; k->n_parts++) {
        snprintf(path, sizeof path, "%s%s", k->prefix, k->name->ours[k->n_parts]);
        dt_tensor *x = k->part[k->n_parts] = dt_param(k->p->call->m, path);
        const bool is_bias = strstr(k->name->theirs, ".bias") != NULL;
        if (x == NULL && !(is_bias && k->p->g.arch->is_gpt)) {
            return dt_fail(k->p->ctx, DT_ERR_STATE, "gguf: the model has no parameter '%s'", path);
        }
        if (x == NULL) {
            k->rows += missing_rows(k, path);
            k->columns = 1;
            k->type = dt__gguf_type_of(DT__GGUF_F32);
            continue;
        }
        const dt__gguf_type *type = type_of(k, x);
        if (type != NULL && k->type != NULL && type != k->type) {
            refuse(k, x, "queries, keys and values are one tensor, and are quantized differently");
        }
        k->type = type;
        k->columns = x->rank == 1 ? 1 : x->dims[x->rank - 1];
        k->rows += k->columns == 0 ? 0 : x->count / k->columns;
    }
    return DT_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

static dt_status put_floats(const making *k, const dt_tensor *x, unsigned char *to)
{
    const float *from = dt_data(x);
    const size_t bytes = (size_t)k->type->bytes;
    const float offset = dt__gguf_offset(&k->p->g, k->name);
    for (int64_t i = 0; i < x->count; i++) {
        if (k->type->id == DT__GGUF_F32) {
            const float value = offset == 0 ? from[i] : from[i] + offset; /* -0 stays */
            dt__copy_little(to + (size_t)i * bytes, &value, bytes);
            continue;
        }
        const uint16_t half = dt__f32_to_f16(from[i]);
        if (isinf(dt__f16_to_f32(half)) && !isinf(from[i])) {
            return dt_fail(k->p->ctx, DT_ERR_NUMERIC,
                           "gguf: '%s': element %lld is %g, which F16 cannot hold; --type f32 can",
                           k->label, (long long)i, (double)from[i]);
        }
        dt__copy_little(to + (size_t)i * bytes, &half, bytes);
    }
    return DT_OK;
}

static dt_status put_codes(const making *k, const dt_tensor *x, unsigned char *to)
{
    dt_ctx *ctx = k->p->ctx;
    const dt__codes *codes = ((const dt__packed *)x->ext)->codes;
    const dt__panel_layout *l = &codes->layout;
    dt_code_rows rows = { .codes = dt__alloc_array(ctx, l->rows, (size_t)l->columns),
                          .scale = dt__alloc_array(ctx, l->rows, (size_t)l->groups * 4) };
    dt_status s = rows.codes == NULL || rows.scale == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) dt__codes_to_rows(codes, &rows);
    for (int64_t r = 0; r < l->rows && s == DT_OK; r++) {
        for (int64_t c = 0; c < l->columns; c += k->type->elements, to += k->type->bytes) {
            dt__gguf_put_block(k->type, rows.codes + r * l->columns + c,
                               rows.scale[r * l->groups + c / l->group], to);
        }
    }
    DT__RELEASE(ctx, rows.codes, rows.scale);
    return s;
}

static dt_status put_values(const making *k, dt_tensor *x, unsigned char *to)
{
    dt_tensor *dense;
    if (k->type->elements > 1) return put_codes(k, x, to);
    if (x->kind == NULL) return put_floats(k, x, to);
    DT__TRY(dt_dequantize(x, &dense));
    const dt_status s = put_floats(k, dense, to);
    dt_tensor_free(dense);
    return s;
}

/* ---- making --------------------------------------------------------------------------------- */

static void order_rows(const making *k, const unsigned char *from, unsigned char *to, size_t bytes)
{
    for (int64_t r = 0; r < k->rows; r++) {
        const int64_t source = dt__gguf_row(&k->p->g, k->name, r);
        memcpy(to + (size_t)r * bytes, from + (size_t)source * bytes, bytes);
    }
}

static dt_status fill(making *k, dt__gguf_tensor *t)
{
    dt__gguf_put *p = k->p;
    const size_t row = (size_t)(k->columns / k->type->elements) * (size_t)k->type->bytes;
    t->bytes = (size_t)k->rows * row;
    t->data = dt__block_list_add(p->ctx, &p->arena, t->bytes);
    if (t->data == NULL) return DT_ERR_NOMEM;
    memset(t->data, 0, t->bytes);
    unsigned char *to = t->data;
    for (int i = 0; i < k->n_parts; i++) {
        dt_tensor *x = k->part[i];
        if (x == NULL) continue; /* a bias has all parts or none */
        DT__TRY(put_values(k, x, to));
        to += (size_t)(x->count / k->columns) * row;
    }
    if (!p->g.arch->pairs || k->name->heads == DT__GGUF_NO_HEADS) return DT_OK;
    unsigned char *ordered = dt__block_list_add(p->ctx, &p->arena, t->bytes);
    if (ordered == NULL) return DT_ERR_NOMEM;
    order_rows(k, t->data, ordered, row);
    t->data = ordered;
    return DT_OK;
}

static dt_status add_tensor(dt__gguf_put *p, const char *label, dt__gguf_tensor **out)
{
    DT__TRY(DT__RESERVE(p->ctx, p->tensor, p->n_tensors, p->room));
    char *name = dt__block_list_text(p->ctx, &p->arena, "%s", label);
    if (name == NULL) return DT_ERR_NOMEM;
    *out = &p->tensor[p->n_tensors++];
    **out = (dt__gguf_tensor){ .name = name };
    return DT_OK;
}

static dt_status make(making *k)
{
    dt__gguf_tensor *t;
    const dt_tensor *x = k->part[0];
    DT__TRY(add_tensor(k->p, k->label, &t));
    t->type = k->type;
    t->rank = x == NULL ? 1 : x->rank;
    for (int i = 0; i < t->rank && x != NULL; i++) t->dims[i] = x->dims[i];
    if (t->rank < 3) t->dims[0] = k->rows; /* otherwise experts, from one part */
    return fill(k, t);
}

/* Calls `with` for each tensor that the model has. */
static dt_status each(dt__gguf_put *p, const dt__gguf_name *n, int64_t layer,
                      dt_status (*with)(making *k))
{
    for (; n->theirs != NULL; n++) {
        making k = { .p = p, .name = n };
        if (!dt__gguf_has(&p->g, n)) continue;
        snprintf(k.label, sizeof k.label, "%s", n->theirs);
        if (layer >= 0) {
            const char *blocks = dt__gguf_names_of(&p->g)->blocks;
            snprintf(k.prefix, sizeof k.prefix, "%s%lld.", blocks, (long long)layer);
            snprintf(k.label, sizeof k.label, "blk.%lld.%s", (long long)layer, n->theirs);
        }
        DT__TRY(find(&k));
        if (with != NULL) DT__TRY(with(&k));
    }
    return DT_OK;
}

static dt_status visit(dt__gguf_put *p, dt_status (*with)(making *k))
{
    const dt__gguf_names *n = dt__gguf_names_of(&p->g);
    DT__TRY(each(p, n->whole, -1, with));
    for (int64_t i = 0; i < p->g.o.layers; i++) DT__TRY(each(p, n->block, i, with));
    return DT_OK;
}

/* Writes divisors of the frequencies, in the order of pairs. */
static dt_status make_divisors(dt__gguf_put *p, const char *label, const dt_reals *given)
{
    dt__gguf_tensor *t;
    const int64_t n = p->g.o.head_width / 2;
    DT__TRY(add_tensor(p, label, &t));
    t->type = dt__gguf_type_of(DT__GGUF_F32);
    t->rank = 1;
    t->dims[0] = n;
    t->bytes = (size_t)n * sizeof(float);
    t->data = dt__block_list_add(p->ctx, &p->arena, t->bytes);
    if (t->data == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        const double of = given != NULL ? given->v[i] : dt__gguf_rope_factor(&p->g, i);
        const float factor = (float)of;
        dt__copy_little(t->data + (size_t)i * sizeof factor, &factor, sizeof factor);
    }
    return DT_OK;
}

static dt_status make_rope(dt__gguf_put *p)
{
    const dt_longrope_options *l = &p->g.o.longrope;
    if (p->g.arch->is_gpt) return DT_OK;
    if (l->given) {
        DT__TRY(make_divisors(p, DT__GGUF_LONG_FACTORS, &l->long_factor));
        return make_divisors(p, DT__GGUF_SHORT_FACTORS, &l->short_factor);
    }
    if (p->g.o.rope.scaling != DT_ROPE_LLAMA3) return DT_OK;
    return make_divisors(p, "rope_freqs.weight", NULL);
}

dt_status dt__gguf_check_tensors(dt__gguf_put *p) { return visit(p, NULL); }

dt_status dt__gguf_make_tensors(dt__gguf_put *p)
{
    DT__TRY(visit(p, make));
    return make_rope(p);
}
