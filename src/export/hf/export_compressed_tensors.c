/* Exporter compressed-tensors: a folder that transformers reads with the compressed-tensors
 * package. For each quantized linear layer NAME of [out, in] weights:
 *
 *     pack-quantized  NAME.weight_packed  I32 [out, ceil(in * bits / 32)]: code + 2^(bits-1), bits
 *                                         in a row of bits, the lowest first
 *                     NAME.weight_shape   I64 [2]
 *     int-quantized   NAME.weight         I8 [out, in], a code a byte
 *                     NAME.weight_zero_point  I8 [out, groups]
 *     both            NAME.weight_scale   F32 [out, groups]; [1] where all share one
 *     nvfp4-pack-quantized, mxfp4-pack-quantized
 *                     NAME.weight_packed  U8 [out, in / 2]: codes of E2M1, the first low
 *                     NAME.weight_scale   F8_E4M3 [out, in / 16], U8 (E8M0) [out, in / 32]
 *                     NAME.weight_global_scale  F32 [1], of nvfp4: a scale is E4M3 / global
 *     mxfp6-pack-quantized
 *                     NAME.weight_packed  U8 [out, in * 3 / 4]: codes of E2M3 as a row of bits, the
 *                                         first low; NAME.weight_scale as above
 *     mxfp8-quantized NAME.weight         F8_E4M3 [out, in]
 *                     NAME.weight_scale   U8 (E8M0) [out, in / 32]
 *     all of them     NAME.input_global_scale   F32 [1], of inputs in nvfp4
 *
 * Weights with zero points are int-quantized, as transformers does not load packed zero points.
 * Experts are as many layers, NAME...experts.E.w1, .w2 and .w3; transformers makes values of them
 * when it loads the folder, and does not round their inputs. */
#include "core/text/small_float.h"
#include "export/exporters.h"
#include "export/hf/hf_quant.h"
#include "io/model/grouped_files.h"
#include "qat/schemes/mx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* compressed-tensors' settings of a form. */
typedef struct form {
    /* strategy NULL: depends on the scales; scale_dtype NULL: f32 */
    const char *name, *type, *strategy, *scale_dtype;
    int64_t bits; /* 0: that of the codes */
} form;

static const form integers[] = { { .name = "pack-quantized", .type = "int" },
                                 { .name = "int-quantized", .type = "int" } };
static const form nvfp4 = { "nvfp4-pack-quantized", "float", "tensor_group", "torch.float8_e4m3fn",
                            4 };
static const form mxfp4 = { "mxfp4-pack-quantized", "float", "group", "torch.uint8", 4 };
static const form mxfp6 = { "mxfp6-pack-quantized", "float", "group", "torch.uint8", 6 };
static const form mxfp8 = { "mxfp8-quantized", "float", "group", "torch.uint8", 8 };

/* The form of inputs. */
static const form tokens = { NULL, "int", "token", NULL, 8 };

static const form *form_of(const dt__hf_quant *q)
{
    switch (q->weight.scheme) {
    case DT_SCHEME_NVFP4: return &nvfp4;
    case DT_SCHEME_MXFP4:
    case DT_SCHEME_MXFP4_UP:
    case DT_SCHEME_MXFP4_NEAR: return &mxfp4;
    case DT_SCHEME_MXFP6: return &mxfp6;
    case DT_SCHEME_MXFP8:
    case DT_SCHEME_MXFP8_UP:
    case DT_SCHEME_MXFP8_NEAR: return &mxfp8;
    default: return &integers[dt__has_zero(&q->weight)];
    }
}

static const form *input_form_of(const dt__hf_quant *q)
{
    switch (q->input.scheme) {
    case DT_SCHEME_NVFP4: return &nvfp4;
    case DT_SCHEME_MXFP4_NEAR: return &mxfp4;
    case DT_SCHEME_MXFP8_NEAR: return &mxfp8;
    default: return &tokens;
    }
}

/* ---- config.json ---------------------------------------------------------------------------- */

/* `dynamic`: true, false, or "local" (inputs whose block scales are dynamic, but not the
 * tensor's). */
static void put_arguments(dt__chars *t, bool symmetric, const form *f, int64_t group,
                          const char *dynamic)
{
    dt__put_text(t, "{\"num_bits\": ");
    DT__PUT_ALL(t, f->bits, ", \"type\": ", DT__QUOTED(f->type),
                ", \"symmetric\": ", symmetric ? "true" : "false",
                ", \"strategy\": ", DT__QUOTED(f->strategy), ", \"group_size\": ");
    if (group > 0) dt__put_integer(t, group);
    else dt__put_text(t, "null");
    if (f->scale_dtype != NULL) DT__PUT_ALL(t, ", \"scale_dtype\": ", DT__QUOTED(f->scale_dtype));
    DT__PUT_ALL(t, ", \"dynamic\": ", dynamic);
    dt__put_text(t, ", \"actorder\": null, \"block_structure\": null, \"observer\": null, "
                    "\"observer_kwargs\": {}}");
}

static const char *strategy_of(const dt__hf_quant *q)
{
    return q->whole ? "tensor" : q->group > 0 ? "group" : "channel";
}

/* Writes all linear layers if they are of one kind; else their paths, and for experts a regular
 * expression. */
static void put_targets(dt__chars *t, const dt__hf_quants *q, int kind)
{
    bool first = true, experts = false;
    if (q->kinds == 1) {
        dt__put_text(t, "\"Linear\"");
        return;
    }
    for (int64_t i = 0; i < q->n; i++) {
        if (q->at[i].kind != kind) continue;
        experts = experts || q->at[i].x->rank != 2;
        if (q->at[i].x->rank != 2) continue;
        dt__put_comma(t, &first);
        dt__put_quoted(t, q->at[i].path);
    }
    if (!experts) return;
    dt__put_comma(t, &first);
    dt__put_quoted(t, "re:.*experts.*");
}

static void put_group(dt__chars *t, const dt__hf_quants *q, int kind)
{
    const dt__hf_quant *first = dt__hf_kind(q, kind);
    char name[32];
    snprintf(name, sizeof name, "group_%d", kind);
    dt__put_quoted(t, name);
    dt__put_text(t, ": {\"targets\": [");
    put_targets(t, q, kind);
    dt__put_text(t, "], \"weights\": ");
    form weight = *form_of(first);
    if (weight.strategy == NULL) weight.strategy = strategy_of(first);
    if (weight.bits == 0) weight.bits = first->weight.bits;
    put_arguments(t, !dt__has_zero(&first->weight), &weight, first->group, "false");
    dt__put_text(t, ", \"input_activations\": ");
    const form *input = input_form_of(first);
    const int64_t blocks = input == &tokens ? 0 : first->input.group_size;
    if (first->has_input) {
        put_arguments(t, blocks > 0, input, blocks, input == &nvfp4 ? "\"local\"" : "true");
    } else dt__put_text(t, "null");
    DT__PUT_ALL(t, ", \"output_activations\": null, \"format\": ", DT__QUOTED(weight.name));
    dt__put_text(t, "}");
}

/* For mixed forms transformers reads the format of each group. */
static const char *whole_form(const dt__hf_quants *q)
{
    for (int kind = 1; kind < q->kinds; kind++) {
        if (form_of(dt__hf_kind(q, kind)) != form_of(dt__hf_kind(q, 0))) return "mixed-precision";
    }
    return form_of(dt__hf_kind(q, 0))->name;
}

static void put_config(void *user, dt__chars *t)
{
    const dt__hf_quants *q = user;
    dt__put_text(t, "{\"quant_method\": \"compressed-tensors\", \"format\": ");
    dt__put_quoted(t, whole_form(q));
    dt__put_text(t,
                 ", \"quantization_status\": \"compressed\", \"global_compression_ratio\": null, "
                 "\"kv_cache_scheme\": null, \"ignore\": [");
    for (int64_t i = 0; dt__put_each(t, i, q->n_plain); i++) dt__put_quoted(t, q->plain[i]);
    dt__put_text(t, "], \"config_groups\": {");
    for (int kind = 0; kind < q->kinds; kind++) {
        if (kind > 0) dt__put_text(t, ", ");
        put_group(t, q, kind);
    }
    dt__put_text(t, "}}");
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Packs a row of codes into bits, the first code lowest. */
static void pack_row(int bits, int64_t n, const int8_t *code, uint32_t *to)
{
    const int offset = 1 << (bits - 1);
    for (int64_t k = 0; k < n; k++) {
        const uint64_t value = (uint64_t)(code[k] + offset);
        const int64_t at = k * bits;
        const uint64_t placed = value << (at % 32);
        to[at / 32] |= (uint32_t)placed;
        if (at % 32 + bits > 32) to[at / 32 + 1] |= (uint32_t)(placed >> 32);
    }
}

static dt_status add_part(dt__saving *keep, const char *name, const char *suffix,
                          const dt_file_entry *like)
{
    char whole[256];
    dt_file_entry e = *like;
    snprintf(whole, sizeof whole, "%s%s", name, suffix);
    e.name = whole;
    return dt_writer_add_bytes(keep->writer, &e);
}

/* A weight, its codes and scales. */
typedef struct matrix {
    char name[200];
    const dt__hf_quant *q;
    int64_t dims[2];
    dt_code_rows rows;
} matrix;

static dt_status add_packed(dt__saving *keep, const matrix *m)
{
    const int bits = (int)m->q->weight.bits;
    const int64_t words = dt__ceil_div(m->dims[1] * bits, 32), two = 2;
    const size_t bytes = (size_t)(m->dims[0] * words) * sizeof(uint32_t);
    uint32_t *packed = dt__saving_keep(keep, bytes);
    int64_t *shape = dt__saving_keep(keep, 2 * sizeof *shape);
    if (packed == NULL || shape == NULL) return DT_ERR_NOMEM;
    memset(packed, 0, bytes);
    memcpy(shape, m->dims, 2 * sizeof *shape);
    for (int64_t r = 0; r < m->dims[0]; r++) {
        pack_row(bits, m->dims[1], m->rows.codes + r * m->dims[1], packed + r * words);
    }
    const int64_t dims[] = { m->dims[0], words };
    DT__TRY(add_part(keep, m->name, "_packed",
                     &(dt_file_entry){ .dtype = "I32", .rank = 2, .dims = dims, .data = packed }));
    return add_part(keep, m->name, "_shape",
                    &(dt_file_entry){ .dtype = "I64", .rank = 1, .dims = &two, .data = shape });
}

/* Packs a row of codes, which are E2M1 values times 2. */
static void pack_halves(int64_t n, const int8_t *code, uint8_t *to)
{
    for (int64_t k = 0; k < n; k++) {
        const unsigned bits = dt__small_code(&dt__e2m1, (float)code[k] / 2);
        to[k / 2] = (uint8_t)(k % 2 == 0 ? bits : to[k / 2] | bits << 4);
    }
}

/* Converts scales to bytes: E8M0 for codes that are values times 2^shift, or E4M3 relative to
 * `global`. */
static void put_scales(int64_t n, const float *scale, int shift, float global, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        const float e = dt__small_round(&dt__e4m3, 2 * scale[i] * global);
        to[i] =
            global > 0 ? dt__small_code(&dt__e4m3, e) : (uint8_t)(ilogbf(scale[i]) + 127 + shift);
    }
}

/* Packs a row of codes, which are E2M3 values times 8: four 6-bit codes in three bytes. */
static void pack_sixes(int64_t n, const int8_t *code, uint8_t *to)
{
    for (int64_t k = 0; k < n; k += 4, to += 3) {
        uint32_t word = 0;
        for (int i = 0; i < 4; i++) {
            word |= (uint32_t)dt__small_code(&dt__e2m3, (float)code[k + i] / 8) << 6 * i;
        }
        for (int i = 0; i < 3; i++) to[i] = (uint8_t)(word >> 8 * i);
    }
}

static dt_status add_bits(dt__saving *keep, const matrix *m)
{
    const bool sixes = form_of(m->q) == &mxfp6;
    const int64_t rows = m->dims[0], columns = m->dims[1];
    const int64_t bytes[] = { rows, sixes ? columns / 4 * 3 : columns / 2 };
    uint8_t *packed = dt__saving_keep(keep, (size_t)(rows * bytes[1]));
    if (packed == NULL) return DT_ERR_NOMEM;
    for (int64_t r = 0; r < rows; r++) {
        (sixes ? pack_sixes : pack_halves)(columns, m->rows.codes + r * columns,
                                           packed + r * bytes[1]);
    }
    return add_part(keep, m->name, "_packed",
                    &(dt_file_entry){ .dtype = "U8", .rank = 2, .dims = bytes, .data = packed });
}

/* Adds a weight of float codes with block scales. */
static dt_status add_blocks(dt__saving *keep, const matrix *m)
{
    const bool tensor = form_of(m->q) == &nvfp4, bytes = form_of(m->q) == &mxfp8;
    const int64_t rows = m->dims[0], one = 1, blocks[] = { rows, m->dims[1] / m->q->group };
    uint8_t *scale = dt__saving_keep(keep, (size_t)(rows * blocks[1]));
    float *global = dt__saving_keep(keep, sizeof *global);
    if (scale == NULL || global == NULL) return DT_ERR_NOMEM;
    *global = tensor ? dt__nvfp4_global(rows * blocks[1], m->rows.scale) : 0;
    if (tensor && *global == 0) {
        return dt_fail(keep->ctx, DT_ERR_UNSUPPORTED,
                       "export: %s: its scales are no E4M3 under one scale of the tensor", m->name);
    }
    const int shift = bytes ? 0 : form_of(m->q) == &mxfp6 ? 3 : 1;
    put_scales(rows * blocks[1], m->rows.scale, shift, *global, scale);
    dt_file_entry e = { .dtype = "F8_E4M3", .rank = 2, .dims = m->dims, .data = m->rows.codes };
    DT__TRY(bytes ? add_part(keep, m->name, "", &e) : add_bits(keep, m));
    e = (dt_file_entry){
        .dtype = tensor ? "F8_E4M3" : "U8", .rank = 2, .dims = blocks, .data = scale
    };
    DT__TRY(add_part(keep, m->name, "_scale", &e));
    if (!tensor) return DT_OK;
    return add_part(keep, m->name, "_global_scale",
                    &(dt_file_entry){ .dtype = "F32", .rank = 1, .dims = &one, .data = global });
}

static dt_status add_input(dt__saving *keep, const matrix *m)
{
    char name[sizeof m->name];
    const int64_t one = 1;
    const size_t n = strlen(m->name) - strlen("weight");
    if (m->q->input_global == 0) return DT_OK;
    snprintf(name, sizeof name, "%.*s", (int)n, m->name);
    return add_part(
        keep, name, "input_global_scale",
        &(dt_file_entry){ .dtype = "F32", .rank = 1, .dims = &one, .data = &m->q->input_global });
}

static dt_status add_matrix(dt__saving *keep, const matrix *m)
{
    const dt__hf_quant *q = m->q;
    DT__TRY(add_input(keep, m));
    if (form_of(q)->scale_dtype != NULL) return add_blocks(keep, m);
    const int64_t one = 1, dims[] = { m->dims[0], q->group > 0 ? m->dims[1] / q->group : 1 };
    const dt_file_entry blocks = { .rank = q->whole ? 1 : 2, .dims = q->whole ? &one : dims };
    dt_file_entry e = { .dtype = "I8", .rank = 2, .dims = m->dims, .data = m->rows.codes };
    if (m->rows.zero_point == NULL) {
        DT__TRY(add_packed(keep, m));
    } else {
        DT__TRY(add_part(keep, m->name, "", &e));
        e = blocks;
        e.dtype = "I8";
        e.data = m->rows.zero_point;
        DT__TRY(add_part(keep, m->name, "_zero_point", &e));
    }
    e = blocks;
    e.dtype = "F32";
    e.data = m->rows.scale;
    return add_part(keep, m->name, "_scale", &e);
}

/* Adds the layers of experts, which are symmetric. */
static dt_status add_experts(dt__saving *keep, const char *path, const dt_tensor *x,
                             const matrix *all)
{
    const int64_t groups = all->q->group > 0 ? all->dims[1] / all->q->group : 1;
    for (int64_t e = 0; e < x->dims[0]; e++) {
        matrix m = *all;
        m.rows.codes += e * m.dims[0] * m.dims[1];
        m.rows.scale += e * m.dims[0] * groups;
        /* all experts have names */
        if (!dt__hf_mixtral.write(path, e, m.name)) return DT_ERR_STATE;
        DT__TRY(add_matrix(keep, &m));
    }
    return DT_OK;
}

static dt_status add(void *user, dt__saving *keep, const char *name, const dt_tensor *x)
{
    matrix m = { .q = dt__hf_quant_of(user, name),
                 .dims = { x->dims[x->rank - 2], x->dims[x->rank - 1] } };
    DT__TRY(dt__hf_rows(keep, x, &m.rows));
    if (x->rank != 2) return add_experts(keep, name, x, &m);
    snprintf(m.name, sizeof m.name, "%s", name);
    return add_matrix(keep, &m);
}

/* ---- the exporter --------------------------------------------------------------------------- */

/* Warns that transformers dequantizes experts when it loads the folder, and does not quantize their
 * inputs. */
static void say_experts(const dt_export_call *call, const dt__hf_quants *q)
{
    bool rounded = false;
    for (int64_t i = 0; i < q->n; i++) {
        rounded = rounded || (q->at[i].x->rank != 2 && q->at[i].has_input);
    }
    if (!rounded || call->options->note == NULL) return;
    call->options->note(call->options->user,
                        "inputs of experts are not rounded by those who read the folder, so "
                        "results are not the model's");
}

static dt_status write(const dt_export_call *call)
{
    dt__hf_quants q = { .experts = true, .floats = true };
    if (dt_is_prepared(call->m)) {
        return dt_fail(call->ctx, DT_ERR_STATE,
                       "export: format compressed-tensors holds integers; "
                       "convert the model first");
    }
    DT__TRY(dt__hf_quants_of(call, "compressed-tensors", &q));
    const dt__hf_form how = { .add = add, .put_config = put_config, .user = &q };
    const dt_hf_options floats = { .dtype = DT_HF_F32 };
    const dt_status s = dt__hf_save_as(call->m, call->info, &floats, &how, call->path);
    if (s == DT_OK) call->summary->bytes = dt__hf_bytes(call->path);
    if (s == DT_OK) say_experts(call, &q);
    call->summary->integer_products = q.n;
    call->summary->float_products = q.n_plain;
    call->summary->promise = "near: transformers multiplies the values of weights and of inputs "
                             "that it rounds as detent does, in floats";
    dt__hf_quants_free(&q);
    return s;
}

static dt_status check(const dt_export_call *call)
{
    dt__hf_quants q = { .experts = true, .floats = true };
    DT__TRY(dt__hf_quants_of(call, "compressed-tensors", &q));
    dt__hf_quants_free(&q);
    return DT_OK;
}

const dt_exporter dt__exporter_compressed_tensors = {
    .name = "compressed-tensors",
    .text = "a folder of integers for transformers: Llama, Qwen2, Qwen3 and Mixtral",
    .folder = true,
    .integers = true,
    .check = check,
    .write = write,
};
