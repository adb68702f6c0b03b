/* Exporter torchao: a folder that transformers reads with the torchao package, whose safetensors
 * metadata describe each parameter. For each quantized linear layer NAME of [out, in] weights:
 *
 *     NAME._weight_qdata       I8 [out, in], a code a byte
 *     NAME._weight_scale       F32 [out, groups]
 *     NAME._weight_zero_point  I8 [out, groups] */
#include "export/exporters.h"
#include "export/hf/hf_quant.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>
#include <string.h>

typedef struct putting {
    dt__hf_quants quants;
    dt__chars names; /* JSON list of all parameters */
    bool first;
    /* pairs of texts: a parameter's name and its description, each with its NUL */
    dt__chars abouts;
} putting;

static void put_dtype(dt__chars *t, const char *name)
{
    dt__put_text(t, "{\"_type\": \"torch.dtype\", \"_data\": ");
    dt__put_quoted(t, name);
    dt__put_text(t, "}");
}

static void put_integer_type(dt__chars *t, int64_t bits)
{
    char name[16];
    snprintf(name, sizeof name, "int%d", (int)bits);
    put_dtype(t, name);
}

static void put_tensor(dt__chars *t, const dt__hf_quant *q)
{
    dt__put_text(t, "{\"_type\": \"IntxUnpackedToInt8Tensor\", \"_data\": {\"target_dtype\": ");
    put_integer_type(t, q->weight.bits);
    dt__put_text(t, ", \"block_size\": [1, ");
    dt__put_integer(t, q->group > 0 ? q->group : q->x->dims[1]);
    dt__put_text(t, "], \"dtype\": ");
    put_dtype(t, "float32");
    dt__put_text(t, ", \"activation_quantization\": ");
    dt__put_text(t, q->has_input ? "\"int8_asym_per_token\"" : "null");
    dt__put_text(t, "}, \"_tensor_data_names\": [\"qdata\", \"scale\", \"zero_point\"]}");
}

/* Writes torchao's settings, those of the first layer. */
static void put_config(void *user, dt__chars *t)
{
    const dt__hf_quant *q = dt__hf_kind(&((putting *)user)->quants, 0);
    dt__put_text(t, "{\"quant_method\": \"torchao\", \"quant_type\": {\"default\": {\"_type\": ");
    dt__put_quoted(t,
                   q->has_input ? "Int8DynamicActivationIntxWeightConfig" : "IntxWeightOnlyConfig");
    dt__put_text(t, ", \"_version\": 2, \"_data\": {\"weight_dtype\": ");
    put_integer_type(t, q->weight.bits);
    dt__put_text(t, q->has_input ? ", \"weight_granularity\": " : ", \"granularity\": ");
    if (q->group > 0) {
        dt__put_text(t, "{\"_type\": \"PerGroup\", \"_version\": 1, \"_data\": {\"group_size\": ");
        dt__put_integer(t, q->group);
    } else {
        dt__put_text(t, "{\"_type\": \"PerAxis\", \"_version\": 1, \"_data\": {\"axis\": 0");
    }
    dt__put_text(t, "}}, ");
    dt__put_text(t, q->has_input ? "\"weight_mapping_type\": " : "\"mapping_type\": ");
    dt__put_text(t, "{\"_type\": \"MappingType\", \"_data\": ");
    dt__put_quoted(t, dt__has_zero(&q->weight) ? "ASYMMETRIC" : "SYMMETRIC");
    dt__put_text(t, "}, ");
    if (q->has_input) {
        dt__put_text(t, "\"act_mapping_type\": {\"_type\": \"MappingType\", \"_data\": "
                        "\"ASYMMETRIC\"}, ");
    }
    dt__put_text(t, "\"intx_packing_format\": {\"_type\": \"IntxPackingFormat\", \"_data\": "
                    "\"UNPACKED_TO_INT8\"}}}}, \"include_input_output_embeddings\": true, "
                    "\"modules_to_not_convert\": null, \"untie_embedding_weights\": false}");
}

static void note_name(putting *p, const char *name)
{
    dt__put_comma(&p->names, &p->first);
    dt__put_quoted(&p->names, name);
    dt__put(&p->abouts, name, strlen(name) + 1);
}

static dt_status added(void *user, const char *name)
{
    putting *p = user;
    static const char plain[] = "{\"_type\": \"Tensor\"}";
    note_name(p, name);
    dt__put(&p->abouts, plain, sizeof plain);
    return p->names.failed || p->abouts.failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status put_meta(void *user, dt_writer *w)
{
    putting *p = user;
    dt__put_text(&p->names, "]");
    const char *names = dt__chars_text(&p->names), *end = p->abouts.bytes + p->abouts.used;
    if (names == NULL || p->abouts.failed) return DT_ERR_NOMEM;
    DT__TRY(dt_writer_meta(w, "tensor_names", names));
    for (const char *at = p->abouts.bytes; at < end;) {
        const char *about = at + strlen(at) + 1;
        DT__TRY(dt_writer_meta(w, at, about));
        at = about + strlen(about) + 1;
    }
    return DT_OK;
}

static dt_status add_part(dt__saving *keep, const char *path, const char *part,
                          const dt_file_entry *like)
{
    char name[256];
    dt_file_entry e = *like;
    snprintf(name, sizeof name, "%s._weight_%s", path, part);
    e.name = name;
    return dt_writer_add_bytes(keep->writer, &e);
}

static dt_status add(void *user, dt__saving *keep, const char *name, const dt_tensor *x)
{
    putting *p = user;
    const dt__hf_quant *q = dt__hf_quant_of(&p->quants, name);
    dt_code_rows rows;
    DT__TRY(dt__hf_rows(keep, x, &rows));
    const int64_t dims[] = { x->dims[0], q->group > 0 ? x->dims[1] / q->group : 1 };
    const size_t blocks = (size_t)(dims[0] * dims[1]);
    int8_t *zero = rows.zero_point != NULL ? rows.zero_point : dt__saving_keep(keep, blocks);
    if (zero == NULL) return DT_ERR_NOMEM;
    if (rows.zero_point == NULL) memset(zero, 0, blocks);
    dt_file_entry e = { .dtype = "I8", .rank = 2, .dims = x->dims, .data = rows.codes };
    DT__TRY(add_part(keep, q->path, "qdata", &e));
    e = (dt_file_entry){ .dtype = "I8", .rank = 2, .dims = dims, .data = zero };
    DT__TRY(add_part(keep, q->path, "zero_point", &e));
    e = (dt_file_entry){ .dtype = "F32", .rank = 2, .dims = dims, .data = rows.scale };
    DT__TRY(add_part(keep, q->path, "scale", &e));
    note_name(p, name);
    put_tensor(&p->abouts, q);
    dt__put(&p->abouts, "", 1);
    return DT_OK;
}

static dt_status write(const dt_export_call *call)
{
    putting p = { .names.ctx = call->ctx, .abouts.ctx = call->ctx, .first = true };
    if (dt_is_prepared(call->m)) {
        return dt_fail(call->ctx, DT_ERR_STATE,
                       "export: format torchao holds integers; convert the model first");
    }
    DT__TRY(dt__hf_quants_of(call, "torchao", &p.quants));
    dt__put_text(&p.names, "[");
    const dt__hf_form form = {
        .add = add, .added = added, .put_config = put_config, .put_meta = put_meta, .user = &p
    };
    const dt_hf_options floats = { .dtype = DT_HF_F32 };
    const dt_status s = dt__hf_save_as(call->m, call->info, &floats, &form, call->path);
    if (s == DT_OK) call->summary->bytes = dt__hf_bytes(call->path);
    call->summary->integer_products = p.quants.n;
    call->summary->float_products = p.quants.n_plain;
    call->summary->promise = "near: torchao multiplies the values of weights and of inputs that it "
                             "rounds as detent does, in floats";
    DT__RELEASE(call->ctx, p.names.bytes, p.abouts.bytes);
    dt__hf_quants_free(&p.quants);
    return s;
}

static dt_status check(const dt_export_call *call)
{
    dt__hf_quants q = { .experts = false };
    DT__TRY(dt__hf_quants_of(call, "torchao", &q));
    dt__hf_quants_free(&q);
    return DT_OK;
}

const dt_exporter dt__exporter_torchao = {
    .name = "torchao",
    .text = "a folder of integers for transformers with torchao: Llama, Qwen2 and Qwen3",
    .folder = true,
    .integers = true,
    .check = check,
    .write = write,
};
