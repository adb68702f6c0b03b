/* A Hugging Face folder as one open file: the tensors of its parts, and metadata as in a model file
 * of detent (detent.model, detent.tokenizer), plus the folder's other contents (detent.hf). So
 * every function that reads a model file also reads such a folder. */
#include "data/text/tokenizer.h"
#include "core/text/ending.h"
#include "io/hf/hf.h"
#include "io/hf/hf_compressed.h"
#include "io/model/model.h"

#include <stdlib.h>

#define CONFIG_MOST ((size_t)1 << 20)
#define TOKENIZER_MOST ((size_t)64 << 20)

bool dt__hf_is_skipped(const char *name) { return dt__has_end(name, "rotary_emb.inv_freq"); }

/* ---- tensors -------------------------------------------------------------------------------- */

/* Settings of a folder that its tensors are read with. */
typedef struct folder_settings {
    int64_t experts;
    dt__hf_cutting cutting;
    dt__hf_groups groups; /* of compressed-tensors */
    dt__chars quant;      /* detent.quant; empty: nothing is quantized */
} folder_settings;

static dt_status take_entries(dt_file *file, const dt_file *part, folder_settings *f)
{
    char shown[DT__SHOWN];
    for (int64_t i = 0; i < part->count; i++) {
        const dt_file_entry *e = &part->entry[i];
        bool taken;
        if (dt__hf_is_skipped(e->name)) continue;
        DT__TRY(dt__hf_take_integers(file, part, e, &f->groups, &f->quant, &taken));
        if (taken) continue;
        if (dt__hf_dtype(e->dtype) == NULL) {
            return dt_fail(file->ctx, DT_ERR_FORMAT,
                           "%s: tensor '%s' is %s; it must be F32, F16 or BF16", part->path,
                           dt__shown(e->name, shown), e->dtype);
        }
        DT__TRY(dt__hf_cut(file, e, &f->cutting, &taken));
        if (!taken) DT__TRY(dt__hf_take(file, part, e, f->experts));
    }
    file->size += part->size;
    return DT_OK;
}

/* Names are unique within a file; the index makes them unique across shards. */
static dt_status join(dt_file *file, folder_settings *f)
{
    int64_t n = 0;
    for (int64_t i = 0; i < file->n_parts; i++) n += dt__hf_tensors(file->part[i], f->experts);
    if (f->groups.n > 0) n *= 3; /* codes, scale and zero point of each weight */
    if (f->cutting.names != NULL) n *= DT__HF_PARTS;
    file->entry = dt__alloc_array(file->ctx, n, sizeof *file->entry);
    file->by_name = dt__alloc_array(file->ctx, n, sizeof *file->by_name);
    if (file->entry == NULL || file->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->n_parts; i++) {
        DT__TRY(take_entries(file, file->part[i], f));
    }
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entry[i];
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, dt__by_entry_name);
    }
    return DT_OK;
}

/* ---- metadata ------------------------------------------------------------------------------- */

/* Texts stored one after the other, each with its NUL; `at` has their offsets. */
typedef struct metas {
    dt__chars text;
    const char *key[5]; /* sorted */
    size_t at[5];
    int n;
} metas;

static void begin_meta(metas *m, const char *key)
{
    m->key[m->n] = key;
    m->at[m->n++] = m->text.used;
}

static dt_status put_tokenizer(const dt__hf_place *p, dt__chars *t, bool *there)
{
    dt__hf_text text;
    DT__TRY(dt__hf_text_read(p->ctx, p->folder, DT__HF_TOKENIZER, TOKENIZER_MOST, &text));
    if (text.text == NULL) {
        const char *own = DT__HF_OWN_TOKENIZER;
        DT__TRY(dt__hf_text_read(p->ctx, p->folder, own, TOKENIZER_MOST, &text));
    }
    *there = dt__hf_is_text(&text);
    if (*there) dt__put_text(t, text.text);
    if (text.text != NULL && !*there) dt__say(p->ctx, "%s: is not UTF-8 and not read", text.path);
    dt__hf_text_free(p->ctx, &text);
    return DT_OK;
}

/* An unsupported tokenizer is an error only where it is needed; *k stays NULL. */
static dt_status try_tokenizer(const dt__hf_place *p, const char *text, size_t n, dt_tokenizer **k)
{
    const dt_status s = dt_tokenizer_parse(p->ctx, text, n, DT__HF_TOKENIZER, k);
    return s == DT_ERR_NOMEM ? s : DT_OK;
}

/* Adds the folder's tokenizer, and the tokens that begin, end and pad texts. */
static dt_status put_texts(const dt__hf_place *p, const dt__hf_model *model, metas *m)
{
    dt_text_tokens tokens;
    dt_tokenizer *k = NULL;
    bool there;
    begin_meta(m, DT__KEY_TOKENIZER);
    const size_t begin = m->text.used;
    DT__TRY(put_tokenizer(p, &m->text, &there));
    const size_t n = m->text.used - begin;
    if (there && !m->text.failed) DT__TRY(try_tokenizer(p, m->text.bytes + begin, n, &k));
    dt_status s = dt__hf_find_tokens(p, model, k, &tokens);
    if (s == DT_OK && k != NULL) s = dt__hf_check_tokenizer(p, k);
    dt_tokenizer_free(k);
    DT__TRY(s);
    dt__put(&m->text, "", 1);
    if (!there) m->n--;
    if (dt__text_tokens_none(&tokens)) return DT_OK;
    begin_meta(m, DT__KEY_TOKENS);
    dt__text_tokens_put(&m->text, &tokens);
    dt__put(&m->text, "", 1);
    return DT_OK;
}

static dt_status put_quant(metas *m, folder_settings *f)
{
    if (f->quant.failed) return DT_ERR_NOMEM;
    if (f->quant.used == 0) return DT_OK;
    begin_meta(m, DT__KEY_QUANT);
    dt__put(&m->text, f->quant.bytes, f->quant.used);
    dt__put(&m->text, "}", 2);
    return DT_OK;
}

/* Keeps config.json without its quantization section, since the model is exported in float. */
static dt_status put_origin(dt_file *file, const char *folder, const dt__hf_text *config,
                            const dt__hf_model *model, bool integers, metas *m)
{
    dt__chars plain = { .ctx = file->ctx };
    dt__hf_text kept = *config;
    static const char *const quantized[] = { "quantization_config", "compression_config", NULL };
    dt_status s = integers ? dt__hf_put_without(&plain, config, quantized, NULL) : DT_OK;
    if (s == DT_OK && integers) {
        kept.text = dt__chars_text(&plain);
        kept.bytes = plain.used;
        if (kept.text == NULL) s = DT_ERR_NOMEM;
    }
    begin_meta(m, DT__KEY_HF);
    if (s == DT_OK) s = dt__hf_origin_put(file, folder, &kept, model, &m->text);
    dt__put(&m->text, "", 1);
    dt__release(file->ctx, plain.bytes);
    return s;
}

static dt_status put_metas(dt_file *file, const char *folder, const dt__hf_text *config,
                           folder_settings *f, metas *m)
{
    dt__hf_model model;
    const dt_key *keys;
    dt_llama_options *o = &model.llama;
    const dt__hf_place place = { file->ctx, folder, config, NULL };
    DT__TRY(dt__hf_config_read(file->ctx, config, &model));
    DT__TRY(dt__hf_check_keys(&place, model.type));
    f->cutting =
        (dt__hf_cutting){ model.names, o->heads * o->head_width, o->kv_heads * o->head_width, 1 };
    if (model.is_gpt) {
        f->cutting = (dt__hf_cutting){ model.names, model.gpt.width, model.gpt.width,
                                       .heads = model.gpt.heads };
    }
    DT__TRY(dt__hf_groups_read(file->ctx, config, &f->groups));
    DT__TRY(dt__hf_open_parts(file, folder));
    if (f->groups.n > 0 && model.names != NULL) {
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                       "%s: quantization_config: integers of this class's joined or turned tensors "
                       "are not supported; give the float model",
                       config->path);
    }
    file->naming = o->moe.given ? &dt__hf_mixtral : NULL;
    f->experts = o->moe.given ? o->moe.experts : 0;
    DT__TRY(join(file, f));
    if (f->groups.n > 0 && dt__hf_has_integer_head(file)) o->tied = false;
    DT__TRY(put_origin(file, folder, config, &model, f->groups.n > 0, m));
    begin_meta(m, DT__KEY_MODEL);
    dt__put_text(&m->text, model.is_gpt ? "{\"gpt\":" : "{\"llama\":");
    const void *options = dt__hf_options_of(&model, &keys);
    dt__put_options(&m->text, keys, options);
    dt__put(&m->text, "}", 2);
    DT__TRY(put_quant(m, f));
    DT__TRY(put_texts(&place, &model, m));
    return m->text.failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make_metas(dt_file *file, const char *folder, const dt__hf_text *config)
{
    metas m = { .text.ctx = file->ctx };
    folder_settings f = { .groups.ctx = file->ctx, .quant.ctx = file->ctx };
    file->meta = dt__alloc_array(file->ctx, DT__COUNT_OF(m.key), sizeof *file->meta);
    if (file->meta == NULL) return DT_ERR_NOMEM;
    const dt_status s = put_metas(file, folder, config, &f, &m);
    file->strings = m.text.bytes;
    dt__hf_groups_free(&f.groups);
    dt__release(file->ctx, f.quant.bytes);
    if (s != DT_OK) return s;
    for (int i = 0; i < m.n; i++) {
        file->meta[i] = (dt__meta){ m.key[i], file->strings + m.at[i] };
    }
    file->meta_count = m.n;
    return DT_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Refuses a folder with a LoRA adapter: transformers would load it with the model, so the base
 * alone is another model. An adapter without its configuration is ignored, as in transformers. */
static dt_status check_adapter(dt_file *file, const char *folder)
{
    static const char *const weights[] = { "adapter_model.safetensors", "adapter_model.bin" };
    char *config, *path;
    DT__TRY(dt__hf_path(file->ctx, folder, "adapter_config.json", &config));
    if (config != NULL) {
        dt__release(file->ctx, config);
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                       "%s: adapter_config.json: adapters of PEFT are not read. Merge it into the "
                       "base (peft: merge_and_unload(), then save_pretrained() to another folder), "
                       "or move its files out of the folder to use the base alone",
                       file->path);
    }
    for (int i = 0; i < DT__COUNT_OF(weights); i++) {
        DT__TRY(dt__hf_path(file->ctx, folder, weights[i], &path));
        if (path == NULL) continue;
        dt__release(file->ctx, path);
        dt__say(file->ctx, "%s: %s is not read; an adapter_config.json is not there", file->path,
                weights[i]);
    }
    return DT_OK;
}

static dt_status open_folder(dt_file *file, const char *folder)
{
    dt__hf_text config;
    file->path = dt__copy_string(file->ctx, dt__path_tail(folder));
    if (file->path == NULL) return DT_ERR_NOMEM;
    DT__TRY(check_adapter(file, folder));
    DT__TRY(dt__hf_text_read(file->ctx, folder, DT__HF_CONFIG, CONFIG_MOST, &config));
    if (config.text == NULL) {
        return dt_fail(file->ctx, DT_ERR_IO,
                       "%s: a folder that is neither a run (it has no recipe.yaml) nor a model of "
                       "transformers (no " DT__HF_CONFIG ")",
                       file->path);
    }
    const dt_status s = make_metas(file, folder, &config);
    dt__hf_text_free(file->ctx, &config);
    return s;
}

dt_status dt__hf_open(dt_ctx *ctx, const char *folder, dt_file **out)
{
    *out = NULL;
    dt_file *file = dt__alloc_zero(ctx, sizeof *file);
    if (file == NULL) return DT_ERR_NOMEM;
    file->ctx = ctx;
    dt__ctx_retain(ctx);
    const dt_status s = open_folder(file, folder);
    if (s == DT_OK) *out = file;
    else dt_file_close(file);
    return s;
}
