/* Writes a model of family llama or gpt as a Hugging Face folder: config.json, model.safetensors,
 * and the other files of the folder that it was read from. */
#include "core/text/half.h"
#include "core/tensor.h"
#include "data/text/chats.h"
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"
#include "io/model/model.h"
#include "io/model/new_folder.h"
#include "nn/module.h"
#include "qat/quantizer.h"

#include <detent/experimental/text.h>

#include <math.h>
#include <string.h>

typedef struct saving {
    dt_ctx *ctx;
    dt_module *m;
    const dt_model_info *info;
    const dt_hf_options *how;
    const dt__hf_form *form; /* NULL: floats */
    bool head_apart;         /* a tied head is quantized, so it becomes a separate weight */
    dt__hf_origin origin;    /* config NULL: the model was not read from a folder */
    const char *type;        /* model_type of that folder; NULL: none */
    dt_tokenizer *tokenizer; /* the model's; NULL: none, or an unsupported one */
    dt_text_tokens tokens;   /* that begin, end and pad texts */
    bool same_tokens;        /* the folder's files already contain these tokens */
    dt__saving keep;         /* the writer, and memory that it borrows */
    dt__new_folder folder;
    const dt__naming *naming;
    bool is_gpt;
    const dt__hf_names *names; /* of the class that is written; NULL: the family's */
} saving;

const char *const dt_hf_dtypes[] = { "as_read", "f32", "f16", "bf16", NULL };

static const char *dtype_of(const saving *s, const char *name)
{
    static const char *const wanted[] = { NULL, "F32", "F16", "BF16" };
    if (s->form != NULL) return "F32";
    if (wanted[s->how->dtype] != NULL) return wanted[s->how->dtype];
    return s->origin.config == NULL ? "F32" : dt__hf_dtype_of(&s->origin, name);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static dt_status narrow(saving *s, const char *name, const dt_tensor *x, const char *dtype,
                        const void **out)
{
    const float *from = dt_data(x);
    const bool f16 = strcmp(dtype, "F16") == 0;
    uint16_t *to = dt__saving_keep(&s->keep, (size_t)x->count * sizeof *to);
    *out = to;
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; i++) {
        to[i] = f16 ? dt__f32_to_f16(from[i]) : dt__f32_to_bf16(from[i]);
        const float back = f16 ? dt__f16_to_f32(to[i]) : dt__bf16_to_f32(to[i]);
        if (!isinf(back) || isinf(from[i])) continue;
        return dt_fail(s->ctx, DT_ERR_NUMERIC,
                       "'%s': element %lld is %g, which %s cannot hold; use f32 or bf16", name,
                       (long long)i, (double)from[i], dtype);
    }
    return DT_OK;
}

static dt_status write_values(saving *s, const char *name, const char *dtype, const dt_tensor *x)
{
    if (strcmp(dtype, "F32") == 0) return dt_writer_add(s->keep.writer, name, x);
    dt_file_entry e = { .name = name, .dtype = dtype, .rank = x->rank, .dims = x->dims };
    DT__TRY(narrow(s, name, x, dtype, &e.data));
    return dt_writer_add_bytes(s->keep.writer, &e);
}

static dt_status add_values(saving *s, const char *name, const dt_tensor *x)
{
    DT__TRY(write_values(s, name, dtype_of(s, name), x));
    const bool notes = s->form != NULL && s->form->added != NULL;
    return notes ? s->form->added(s->form->user, name) : DT_OK;
}

/* The name in the file of a parameter, or of one of its experts. */
static const char *name_of(const saving *s, const char *path, int64_t expert, char text[DT__SHOWN])
{
    const bool named = s->naming != NULL && s->naming->write(path, expert, text);
    return named ? text : path;
}

/* Adds a dense x; a grouped parameter becomes one tensor per expert. */
static dt_status add_named(saving *s, const char *path, const dt_tensor *x, int64_t experts)
{
    char name[DT__SHOWN];
    dt_tensor *view;
    if (experts == 0) return add_values(s, name_of(s, path, DT__WHOLE, name), x);
    DT__TRY(dt__view(s->ctx, x, &view));
    dt_status status = dt_set_grouped(view);
    for (int64_t i = 0; i < experts && status == DT_OK; i++) {
        dt_tensor *expert = dt_grouped_expert(view, i);
        status = expert == NULL ? s->ctx->status : add_values(s, name_of(s, path, i, name), expert);
        dt_tensor_free(expert);
    }
    dt_tensor_free(view);
    return status;
}

static dt_status add_quantized(saving *s, const char *name, dt_tensor *x)
{
    dt_tensor *dense;
    DT__TRY(dt_dequantize(x, &dense));
    const dt_status status = add_named(s, name, dense, dt_grouped_count(x));
    dt_tensor_free(dense); /* the writer keeps its storage */
    return status;
}

/* Adds a converted weight; embeddings are stored as values in every form. */
static dt_status add_packed(saving *s, const char *name, dt_tensor *x)
{
    const bool is_table = strcmp(name, dt__hf_tokens(s->is_gpt)) == 0;
    if (s->form == NULL || is_table) return add_quantized(s, name, x);
    return s->form->add(s->form->user, &s->keep, name, x);
}

static int64_t heads_of(const saving *s)
{
    return s->is_gpt ? ((const dt_gpt_options *)s->info->options)->heads : 1;
}

/* Adds the class's tensor that contains this parameter and others, when called for the first of
 * them. */
static dt_status add_joined(saving *s, const char *path, const dt__hf_row *row, const char *name)
{
    dt_tensor *x;
    const dt__hf_joined joined = { row, path, heads_of(s), s->how->dequantize };
    DT__TRY(dt__hf_join(s->m, &joined, &x));
    const dt_status status = write_values(s, name, dtype_of(s, path), x);
    dt_tensor_free(x); /* the writer keeps its storage */
    return status;
}

static dt_status add_entry(saving *s, const dt__entry *entry)
{
    char theirs[DT__SHOWN];
    int part = 0;
    dt_tensor *x = entry->x;
    const char *path = dt_param_path(s->m, x);
    const bool tied = strcmp(path, entry->path) != 0;
    if (tied && !s->origin.tied_head && !s->head_apart) return DT_OK;
    if (strncmp(entry->name, "lora_", 5) == 0) {
        return dt_fail(s->ctx, DT_ERR_STATE, "'%s' is of an adapter: detent merge comes first",
                       entry->path);
    }
    const dt__hf_row *row = dt__hf_row_of(s->names, entry->path, &part, theirs);
    if (row != NULL) return part == 0 ? add_joined(s, entry->path, row, theirs) : DT_OK;
    if (x->kind == NULL) return add_named(s, entry->path, x, dt_grouped_count(x));
    if (dt_is_packed(x)) return add_packed(s, entry->path, x);
    if (s->how->dequantize) return add_quantized(s, entry->path, x);
    return add_named(s, entry->path, dt_inner(x), dt_grouped_count(x));
}

static dt_status write_tensors(saving *s)
{
    const char *path = dt__folder_file(&s->folder, DT__HF_SINGLE);
    if (path == NULL) return DT_ERR_IO;
    DT__TRY(dt_writer_create(s->ctx, &s->keep.writer));
    /* transformers requires this key */
    DT__TRY(dt_writer_meta(s->keep.writer, "format", "pt"));
    DT__EACH_ENTRY(m, e, s->m) {
        /* quantizers hold scales only */
        if (dt__quantizer_of(m) == NULL) DT__TRY(add_entry(s, e));
    }
    if (s->form != NULL && s->form->put_meta != NULL) {
        DT__TRY(s->form->put_meta(s->form->user, s->keep.writer));
    }
    return dt_writer_write(s->keep.writer, path);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static dt_status write_text(saving *s, const char *name, const char *text, size_t bytes)
{
    const char *path = dt__folder_file(&s->folder, name);
    if (path == NULL) return DT_ERR_IO;
    return dt__file_replace(s->ctx, path, &(const dt__span){ text, bytes }, 1);
}

static dt_status same_options(dt_ctx *ctx, const dt__hf_model *a, const void *b, bool *same)
{
    dt__chars text[2] = { { .ctx = ctx }, { .ctx = ctx } };
    const dt_key *keys;
    const void *options = dt__hf_options_of(a, &keys);
    dt__put_options(&text[0], keys, options);
    dt__put_options(&text[1], keys, b);
    const bool made = !text[0].failed && !text[1].failed;
    *same = made && text[0].used == text[1].used &&
            memcmp(text[0].bytes, text[1].bytes, text[0].used) == 0;
    for (int i = 0; i < 2; i++) dt__release(ctx, text[i].bytes);
    return made ? DT_OK : DT_ERR_NOMEM;
}

#define CONFIG_END "\n}\n" /* of a new config.json */

/* Reopens the object of a new config.json and appends the tokens. */
static dt_status put_tokens(saving *s, dt__chars *t)
{
    if (t->failed) return DT_ERR_NOMEM;
    t->used -= strlen(CONFIG_END);
    dt__hf_put_ids(t, &s->tokens);
    return DT_OK;
}

/* A new config.json with "quantization_config" as its last key. */
static dt_status put_form(saving *s, dt__chars *t)
{
    dt_llama_options o = *(const dt_llama_options *)s->info->options;
    o.tied = o.tied && !s->head_apart;
    DT__TRY(dt__hf_config_put(t, false, &o, &(const dt__hf_new){ "F32", true, s->type }));
    DT__TRY(put_tokens(s, t));
    dt__put_text(t, ",\n  \"quantization_config\": ");
    s->form->put_config(s->form->user, t);
    dt__put_text(t, CONFIG_END);
    return DT_OK;
}

static dt_status put_new(saving *s, const char *dtype, dt__chars *t)
{
    const dt__hf_new how = { dtype, false, s->type };
    s->names = dt__hf_names_for(s->is_gpt, s->info->options, &how);
    DT__TRY(dt__hf_config_put(t, s->is_gpt, s->info->options, &how));
    DT__TRY(put_tokens(s, t));
    dt__put_text(t, CONFIG_END);
    return DT_OK;
}

/* *same: config.json describes the model. The dropout of a GPT-2 is not compared. */
static dt_status is_same(saving *s, const dt__hf_model *said, bool *same)
{
    *same = false;
    if (said->is_gpt != s->is_gpt) return DT_OK;
    if (!s->is_gpt) return same_options(s->ctx, said, s->info->options, same);
    dt_gpt_options o = *(const dt_gpt_options *)s->info->options;
    o.dropout = 0;
    return same_options(s->ctx, said, &o, same);
}

/* Writes a config.json that was read, with another dtype of the weights. */
static dt_status put_again(const saving *s, const dt__hf_text *config, const char *dtype,
                           dt__chars *t)
{
    if (strcmp(dtype, s->origin.dtype) != 0) return dt__hf_config_again(t, config, dtype);
    dt__put_text(t, config->text);
    return DT_OK;
}

/* The original config.json if it still describes the model, else a new one; sets s->names. */
static dt_status put_config(saving *s, dt__chars *t)
{
    if (s->form != NULL) return put_form(s, t);
    const char *dtype = dtype_of(s, dt__hf_tokens(s->is_gpt)), *text = s->origin.config;
    dt__hf_model said;
    bool same;
    if (text == NULL) return put_new(s, dtype, t);
    const dt__hf_text config = { DT__HF_CONFIG, text, strlen(text) };
    DT__TRY(dt__hf_config_read(s->ctx, &config, &said));
    DT__TRY(is_same(s, &said, &same));
    if (!same) return put_new(s, dtype, t);
    s->names = said.names;
    if (s->same_tokens) return put_again(s, &config, dtype, t);
    dt__chars changed = { .ctx = s->ctx };
    const dt__hf_said now = { &s->tokens, NULL };
    dt_status status = dt__hf_put_said(&changed, &config, &now);
    if (status == DT_OK && dt__chars_text(&changed) == NULL) status = DT_ERR_NOMEM;
    const dt__hf_text whole = { DT__HF_CONFIG, changed.bytes, changed.used - 1 };
    if (status == DT_OK) status = put_again(s, &whole, dtype, t);
    dt__release(s->ctx, changed.bytes);
    return status;
}

static dt_status write_config(saving *s)
{
    dt__chars t = { .ctx = s->ctx };
    dt_status status = put_config(s, &t);
    if (status == DT_OK && t.failed) status = DT_ERR_NOMEM;
    if (status == DT_OK) status = write_text(s, DT__HF_CONFIG, t.bytes, t.used);
    dt__release(s->ctx, t.bytes);
    return status;
}

/* Other programs cannot read a tokenizer of bytes or characters. */
static bool is_own(const dt_tokenizer *k)
{
    return k != NULL && strcmp(dt_tokenizer_kind(k), "bpe") != 0;
}

static dt_status write_tokenizer(saving *s, const char *text)
{
    return write_text(s, is_own(s->tokenizer) ? DT__HF_OWN_TOKENIZER : DT__HF_TOKENIZER, text,
                      strlen(text));
}

/* Writes a file with the model's tokens; `text` NULL: a new one. */
static dt_status write_said(saving *s, const char *name, const char *text)
{
    dt__chars t = { .ctx = s->ctx };
    const dt__hf_said now = { &s->tokens, is_own(s->tokenizer) ? NULL : s->tokenizer };
    const dt__hf_text was = { name, text, text == NULL ? 0 : strlen(text) };
    dt_status status = dt__hf_put_said(&t, &was, &now);
    if (status == DT_OK && t.failed) status = DT_ERR_NOMEM;
    if (status == DT_OK) status = write_text(s, name, t.bytes, t.used);
    dt__release(s->ctx, t.bytes);
    return status;
}

/* Writes files with tokens that the original folder did not have. */
static dt_status write_new(saving *s)
{
    static const char *const files[] = { "generation_config.json", "tokenizer_config.json" };
    for (int i = 0; i < DT__COUNT_OF(files); i++) {
        bool there = false;
        for (int64_t k = 0; k < s->origin.files.n; k++) {
            there |= strcmp(s->origin.files.at[k].key, files[i]) == 0;
        }
        const bool of_text = i == 1;
        if (there || (of_text && (s->tokenizer == NULL || is_own(s->tokenizer)))) continue;
        DT__TRY(write_said(s, files[i], NULL));
    }
    return DT_OK;
}

/* *has: one of the original files, which are written unchanged, contains the template. */
static dt_status has_chat(const saving *s, const char *jinja, bool *has)
{
    char *text = NULL, *own = NULL;
    *has = false;
    if (s->info->hf == NULL) return DT_OK;
    DT__TRY(dt__hf_chat_template(s->ctx, s->info->hf, &text));
    dt_status status =
        text == NULL ? DT_OK : dt__chat_jinja_in(s->ctx, text, "the model's chat template", &own);
    *has = status == DT_OK && own != NULL && strcmp(own, jinja) == 0;
    DT__RELEASE(s->ctx, text, own);
    return status;
}

/* For a model that was trained on chats: writes chat_template.jinja, which takes precedence over
 * tokenizer_config.json. */
static dt_status write_chat(saving *s)
{
    char *jinja;
    bool has = true;
    DT__TRY(dt__hf_chat_of_model(s->ctx, s->info, &jinja));
    dt_status status = jinja == NULL ? DT_OK : has_chat(s, jinja, &has);
    if (status == DT_OK && !has) {
        status = write_text(s, "chat_template.jinja", jinja, strlen(jinja));
    }
    dt__release(s->ctx, jinja);
    return status;
}

static dt_status write_extras(saving *s)
{
    for (int64_t i = 0; i < s->origin.files.n; i++) {
        const dt__hf_pair *f = &s->origin.files.at[i];
        if (!s->same_tokens && dt__hf_has_tokens(f->key)) DT__TRY(write_said(s, f->key, f->value));
        else DT__TRY(write_text(s, f->key, f->value, strlen(f->value)));
    }
    DT__TRY(write_chat(s));
    if (!s->same_tokens && !dt__text_tokens_none(&s->tokens)) DT__TRY(write_new(s));
    return s->info->tokenizer == NULL ? DT_OK : write_tokenizer(s, s->info->tokenizer);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static dt_status write_folder(saving *s, const char *folder)
{
    DT__TRY(dt__folder_begin(s->ctx, folder, &s->folder));
    DT__TRY(write_config(s));
    DT__TRY(write_extras(s));
    DT__TRY(write_tensors(s));
    return dt__folder_commit(&s->folder);
}

static dt_status check_family(dt_ctx *ctx, const dt_model_info *info, bool *is_gpt)
{
    const dt_family *family = info == NULL ? NULL : info->family;
    if (family == NULL) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "hf: it is not known how the model is built, which config.json must say");
    }
    *is_gpt = strcmp(family->name, "gpt") == 0;
    if (*is_gpt || strcmp(family->name, "llama") == 0) return DT_OK;
    return dt_fail(
        ctx, DT_ERR_UNSUPPORTED,
        "hf: family %s is none of Llama, Qwen2, Qwen3, Mixtral, Phi-3, OLMo 2, SmolLM3, "
        "Gemma 3, GPT-2 and Pythia, which are what is written; families llama and gpt are",
        family->name);
}

static dt_status check_form(dt_ctx *ctx, bool is_gpt)
{
    if (!is_gpt) return DT_OK;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "hf: GPT-2's weights are turned and Pythia's joined by head, so that integers "
                   "have no form in their folders; those of family llama have");
}

dt_status dt__hf_check(dt_ctx *ctx, const dt_model_info *info, bool integers)
{
    dt__chars t = { .ctx = ctx };
    bool is_gpt;
    DT__TRY(check_family(ctx, info, &is_gpt));
    if (integers) DT__TRY(check_form(ctx, is_gpt));
    const dt__hf_new how = { "F32", integers, NULL };
    const dt_status s = dt__hf_config_put(&t, is_gpt, info->options, &how);
    dt__release(ctx, t.bytes);
    return s == DT_OK && t.failed ? DT_ERR_NOMEM : s;
}

static dt_status check(saving *s)
{
    DT__TRY(check_family(s->ctx, s->info, &s->is_gpt));
    if (s->form != NULL) DT__TRY(check_form(s->ctx, s->is_gpt));
    if (s->how->dtype >= 0 && s->how->dtype <= DT_HF_BF16) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_ARG, "hf: dtype %d is outside 0...%d", s->how->dtype, DT_HF_BF16);
}

dt_status dt_hf_save(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                     const char *folder)
{
    DT__NEED(dt_module_ctx(m), m);
    return dt__hf_save_as(m, info, options, NULL, folder);
}

/* ---- what the model and its folder say ------------------------------------------------------- */

static bool are_equal(const dt_text_tokens *a, const dt_text_tokens *b)
{
    return a->begin == b->begin && a->pad == b->pad && a->n_end == b->n_end &&
           memcmp(a->end, b->end, (size_t)a->n_end * sizeof a->end[0]) == 0;
}

/* If the model names no end token, uses the tokenizer's token with the usual name of one. */
static void find_end(saving *s)
{
    const int32_t end = s->tokenizer == NULL ? -1 : dt_tokenizer_end(s->tokenizer);
    if (s->info->tokens == NULL && end >= 0) dt__text_tokens_add_end(&s->tokens, end);
}

static dt_status learn_tokens(saving *s)
{
    dt_text_tokens *now = &s->tokens, was;
    const char *text = s->info->tokenizer;
    DT__TRY(dt_text_tokens_parse(s->ctx, s->info->tokens, "the model's tokens", now));
    if (text != NULL) {
        const dt_status status =
            dt_tokenizer_parse(s->ctx, text, strlen(text), "tokenizer", &s->tokenizer);
        if (status == DT_ERR_NOMEM) return status;
    }
    if (s->origin.config == NULL) {
        find_end(s);
        return DT_OK;
    }
    dt__hf_model said;
    const dt__hf_text config = { DT__HF_CONFIG, s->origin.config, strlen(s->origin.config) };
    const dt__hf_place place = { s->ctx, NULL, &config, &s->origin };
    DT__TRY(dt__hf_config_read(s->ctx, &config, &said));
    s->type = said.type;
    DT__TRY(dt__hf_find_tokens(&place, &said, s->tokenizer, &was));
    s->same_tokens = s->info->tokens == NULL || are_equal(now, &was);
    if (s->info->tokens == NULL) *now = was;
    return DT_OK;
}

static bool has_packed_head(const dt_module *m)
{
    const dt_tensor *head = dt_param((dt_module *)(uintptr_t)m, "lm_head.weight");
    return head != NULL && dt_is_packed(head);
}

dt_status dt__hf_save_as(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                         const dt__hf_form *form, const char *folder)
{
    static const dt_hf_options defaults = { .dtype = DT_HF_AS_READ };
    saving s = { .ctx = m->ctx,
                 .m = m,
                 .info = info,
                 .how = options == NULL ? &defaults : options,
                 .form = form,
                 .head_apart = form != NULL && has_packed_head(m),
                 .origin.ctx = m->ctx,
                 .keep.ctx = m->ctx };
    DT__TRY(check(&s));
    static const dt_llama_options none = { .vocab = 0 };
    const dt_llama_options *o = s.is_gpt ? &none : info->options;
    s.naming = o->moe.given ? &dt__hf_mixtral : NULL;
    dt_status status = DT_OK;
    if (info->hf != NULL) status = dt__hf_origin_read(s.ctx, info->hf, &s.origin);
    if (status == DT_OK) status = learn_tokens(&s);
    if (status == DT_OK) status = write_folder(&s, folder);
    if (status == DT_OK && o->moe.given && o->moe.z > 0) {
        dt__say(s.ctx, "warning: %s: a Mixtral's config.json has no place for moe.z, which is %g",
                folder, o->moe.z);
    }
    dt__folder_abandon(&s.folder);
    dt__saving_end(&s.keep);
    dt__hf_origin_free(&s.origin);
    dt_tokenizer_free(s.tokenizer);
    return status;
}
