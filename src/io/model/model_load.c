/* Loads models: builds the model from its family and options, then restores its tensors. */
#include "core/block_list.h"
#include "core/system/open_file.h"
#include "io/plugin.h"
#include "io/hf/hf.h"
#include "io/model/model_base.h"
#include "io/safetensors/tensors_meta.h"
#include "nn/families/family.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- detent.model = { family: options } ------------------------------------------------------ */

/* A metadata text that belongs to the model, appended to info's memory. */
static const char *keep_text(const char *text, char **at)
{
    if (text == NULL) return NULL;
    char *copy = *at;
    strcpy(copy, text);
    *at += strlen(text) + 1;
    return copy;
}

static size_t room_of(const char *text) { return text == NULL ? 0 : strlen(text) + 1; }

/* Memory for the options, followed by their texts and strings. */
static dt_status read_options(const dt_file *file, dt__json *j, dt_model_info *info)
{
    const size_t size = (info->family->options_size + 15) / 16 * 16;
    j->blocks = &info->memory;
    const char *tokenizer = dt_file_meta(file, DT__KEY_TOKENIZER);
    const char *tokens = dt_file_meta(file, DT__KEY_TOKENS);
    const char *hf = dt_file_meta(file, DT__KEY_HF);
    const char *data = dt_file_meta(file, DT__KEY_DATA);
    const char *hash = dt_file_meta(file, DT__KEY_HASH);
    const char *base = dt_file_meta(file, DT__KEY_BASE);
    char *memory = dt__block_list_add(j->ctx, &info->memory,
                                      size + room_of(tokenizer) + room_of(tokens) + room_of(hf) +
                                          room_of(data) + room_of(hash) + room_of(base) +
                                          (size_t)(j->end - j->begin) + 1);
    if (memory == NULL) return DT_ERR_NOMEM;
    info->options = memory;
    j->strings = memory + size;
    info->tokenizer = keep_text(tokenizer, &j->strings);
    info->tokens = keep_text(tokens, &j->strings);
    info->hf = keep_text(hf, &j->strings);
    info->data = keep_text(data, &j->strings);
    info->hash = keep_text(hash, &j->strings);
    info->base = keep_text(base, &j->strings);
    DT__TRY(dt__json_options(j, info->family->keys, memory));
    DT__TRY(dt__json_expect(j, '}'));
    return dt__json_end(j);
}

static dt_status read_model(const dt_file *file, dt__json *j, dt_model_info *info)
{
    const char *name;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_expect(j, '{'));
    DT__TRY(dt__json_string(j, &name));
    info->family = dt_family_named(j->ctx, name);
    if (info->family == NULL) {
        char all[160] = "";
        for (int i = 0; dt_family_at(i) != NULL; i++) {
            const size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "",
                     dt_family_at(i)->name);
        }
        return dt__json_fail(j, "there is no family of models '%s'; there are %s",
                             dt__shown(name, shown), all);
    }
    DT__TRY(dt__json_expect(j, ':'));
    return read_options(file, j, info);
}

/* Refuses files without metadata of a model. Weights of transformers need their config.json. */
static dt_status refuse_bare(const dt_file *file)
{
    char config[1024];
    const char *slash = strrchr(file->path, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - file->path) + 1;
    const int n = snprintf(config, sizeof config, "%.*s" DT__HF_CONFIG, folder, file->path);
    const bool beside = n > 0 && n < (int)sizeof config && access(config, F_OK) == 0;
    return dt_fail(file->ctx, DT_ERR_FORMAT,
                   "%s: does not say how its model is built (" DT__KEY_MODEL " is missing); %s",
                   file->path,
                   beside ? "the folder does, with its " DT__HF_CONFIG ": give the folder"
                          : "its weights can be loaded into a model");
}

dt_status dt__model_info_read(const dt_file *file, dt_model_info *info)
{
    dt__json j;
    char *strings;
    bool has;
    *info = (dt_model_info){ .family = NULL };
    DT__TRY(dt__meta_scan(file, DT__KEY_MODEL, &j, &strings, &has));
    if (!has) return refuse_bare(file);
    dt_status s = dt__plugins_check(file);
    if (s == DT_OK) s = read_model(file, &j, info);
    dt__release(file->ctx, strings);
    if (s != DT_OK) dt_model_info_free(file->ctx, info);
    return s;
}

void dt_model_info_free(dt_ctx *ctx, dt_model_info *info)
{
    if (info == NULL) return;
    dt__block_list_free(ctx, &info->memory);
    *info = (dt_model_info){ .family = NULL };
}

/* ---- building -------------------------------------------------------------------------------- */

/* Limits the size of a model, as a hostile file could have any options. Codes of 2 bits become 16
 * times as large in memory, and a layer needs memory besides its weights. */
#define GROWTH 40
#define SLACK ((size_t)64 << 20)

/* Initial weights are not drawn, since the file overwrites them, and matrices get memory only when
 * they are read: quantized weights never exist as floats. Random streams do not change. */
dt_status dt__model_twin(const dt_file *file, const dt_model_info *info, dt_module **out)
{
    dt_ctx *ctx = file->ctx;
    dt__pool_limit(ctx, file->size, GROWTH, SLACK);
    ctx->hollow = true;
    const dt_status s = dt__family_twin(ctx, info->family, info->options, out);
    ctx->hollow = false;
    ctx->pool.limit = 0;
    if (s == DT_OK || (s == DT_ERR_NOMEM && !ctx->pool.limited)) return s;
    char text[DT__MESSAGE_SIZE / 2] = "it describes a model many times as large as the file";
    if (!ctx->pool.limited) snprintf(text, sizeof text, "%s", dt_error(ctx));
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: %s: %s", file->path,
                   file->part == NULL ? DT__KEY_MODEL : DT__HF_CONFIG, text);
}

static dt_status restore_whole(const dt_file *file, dt_model_info *info, dt_module *m)
{
    return dt__restore(
        &(dt__restoring){ .file = file, .m = m, .quantized = true, .grouped = &info->grouped });
}

/* A file of adapters is restored into the model of its base. */
static dt_status build(const dt_file *file, dt_model_info *info, dt_module **out)
{
    dt_file *base = NULL;
    if (dt__has_base(file)) DT__TRY(dt__base_open(file, &base));
    dt_status s = dt__model_twin(base != NULL ? base : file, info, out);
    if (s == DT_OK && base != NULL) s = restore_whole(base, info, *out);
    if (s == DT_OK) s = restore_whole(file, info, *out);
    dt_file_close(base);
    if (s != DT_OK) {
        dt_module_free(*out);
        *out = NULL;
    }
    return s;
}

dt_status dt__model_of_file(const dt_file *file, dt_module **out, dt_model_info *info)
{
    dt_model_info own;
    *out = NULL;
    if (info != NULL) *info = (dt_model_info){ .family = NULL };
    DT__TRY(dt__model_info_read(file, &own));
    const dt_status s = build(file, &own, out);
    if (s == DT_OK && info != NULL) {
        *info = own;
    } else {
        dt_model_info_free(file->ctx, &own);
    }
    return s;
}

/* ---- the public side ------------------------------------------------------------------------- */

static dt_status check_file(const dt_file *file)
{
    DT__TRY(dt_file_check(file));
    return dt__is_checkpoint(file) ? dt__checkpoint_check(file) : DT_OK;
}

dt_status dt_model_load(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (info != NULL) *info = (dt_model_info){ .family = NULL };
    dt_file *file;
    DT__TRY(dt_file_open(ctx, path, &file));
    dt_status s = check_file(file);
    if (s == DT_OK) s = dt__model_of_file(file, out, info);
    dt_file_close(file);
    return s;
}

dt_status dt_hf_load(dt_ctx *ctx, const char *folder, dt_module **out, dt_model_info *info)
{
    DT__NEED3(ctx, ctx, folder, out);
    *out = NULL;
    if (info != NULL) *info = (dt_model_info){ .family = NULL };
    if (dt__is_folder(folder)) return dt_model_load(ctx, folder, out, info);
    return dt_fail(ctx, DT_ERR_IO, "%s: not a folder", dt__path_tail(folder));
}

static dt_status restore(dt_module *m, const char *path, bool quantized)
{
    dt_file *file;
    DT__TRY(dt_file_open(m->ctx, path, &file));
    dt_status s = dt_file_check(file);
    const dt__restoring r = { .file = file, .m = m, .quantized = quantized };
    if (s == DT_OK) s = dt__restore(&r);
    dt_file_close(file);
    return s;
}

dt_status dt_model_load_weights(dt_module *m, const char *path)
{
    DT__NEED(dt_module_ctx(m), m);
    return restore(m, path, false);
}
dt_status dt_model_restore(dt_module *m, const char *path)
{
    DT__NEED(dt_module_ctx(m), m);
    return restore(m, path, true);
}

/* Checks the tokenizer in the model file, and the ids of its special tokens. */
static dt_status check_tokenizer(const dt_file *file)
{
    char name[DT__MESSAGE_SIZE / 2];
    dt_tokenizer *k;
    dt_text_tokens tokens;
    DT__TRY(
        dt_text_tokens_parse(file->ctx, dt_file_meta(file, DT__KEY_TOKENS), file->path, &tokens));
    const char *text = dt_file_meta(file, DT__KEY_TOKENIZER);
    if (text == NULL) return DT_OK;
    snprintf(name, sizeof name, "%s: " DT__KEY_TOKENIZER, file->path);
    DT__TRY(dt_tokenizer_parse(file->ctx, text, strlen(text), name, &k));
    dt_tokenizer_free(k);
    return DT_OK;
}

static dt_status check_data(const dt_file *file)
{
    dt_model_data data;
    const char *text = dt_file_meta(file, DT__KEY_DATA);
    if (text == NULL) return DT_OK;
    DT__TRY(dt_model_data_parse(file->ctx, text, file->path, &data));
    dt_model_data_free(file->ctx, &data);
    return DT_OK;
}

static dt_status check_fitted(const dt_file *file, const dt__model_meta *meta)
{
    dt_status s = DT_OK;
    for (int64_t i = 0; i < meta->n_quants && s == DT_OK; i++) {
        const dt__module_quant *q = &meta->quant[i];
        if (!q->has_weight || q->weight.state != DT__PACKED) continue;
        char *name = dt__weight_name(file->ctx, q->path);
        dt__packed *packed = NULL;
        const dt__packed_place place = { file, name == NULL ? "" : dt__first_name(meta, name), q };
        s = name == NULL ? DT_ERR_NOMEM : dt__packed_read(&place, &packed);
        if (packed != NULL) dt__codes_release(packed->codes);
        DT__RELEASE(file->ctx, packed, name);
    }
    return s;
}

/* Checks codes of a file whose family is unknown, so that the model cannot be built. */
static dt_status check_codes(const dt_file *file)
{
    dt__model_meta meta;
    dt__groups groups;
    dt__fit fit = { .arena = NULL };
    DT__TRY(dt__model_meta_read(file, &meta));
    dt_status s = dt__groups_of_meta(&meta, &groups);
    if (s == DT_OK) {
        s = dt__fit_open(file, &groups, &fit);
        if (s == DT_OK) s = check_fitted(&fit.view, &meta);
        dt__fit_free(&fit);
        dt__groups_free(&groups);
    }
    dt__model_meta_free(&meta);
    return s;
}

dt_status dt_model_check(const dt_file *file)
{
    DT__NEED(NULL, file);
    DT__TRY(check_file(file));
    DT__TRY(dt__tensors_check(file));
    DT__TRY(check_tokenizer(file));
    DT__TRY(check_data(file));
    if (dt_file_meta(file, DT__KEY_MODEL) == NULL) return check_codes(file);
    dt_module *m;
    DT__TRY(dt__model_of_file(file, &m, NULL));
    dt_module_free(m);
    return DT_OK;
}
