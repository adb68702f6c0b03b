/* config.json of a Hugging Face folder: finds the model class and calls its reader. A key that
 * affects what the model computes is used or refused; other keys are skipped; null means absent. */
#include "io/hf/hf_config.h"

#include <string.h>

static const dt_key type_keys[] = {
    { "model_type", DT_KEY_STRING, .offset = offsetof(dt__hf_config, model_type) },
    { 0 },
};

static dt_status step_over(dt__json *j, const char *name, void *options)
{
    (void)name;
    (void)options;
    return dt__json_skip(j);
}

/* Classes of family gpt. */
static const struct {
    const char *type;
    const dt__hf_names *names;
    dt_status (*read)(dt__json *j, dt_gpt_options *out);
    dt__hf_token_defaults tokens;
} gpts[] = {
    { "gpt2", &dt__hf_gpt2_names, dt__hf_config_read_gpt2, { 50256, 50256, -1 } },
    { "gpt_neox", &dt__hf_neox_names, dt__hf_config_read_neox, { 0, 2, -1 } },
};

/* Reads the rest by the class, which is known already. */
static dt_status read_model(dt__json *j, dt__hf_config *c, dt__hf_model *out)
{
    const dt__json begin = *j;
    char shown[DT__SHOWN];
    bool found;
    DT__TRY(dt__hf_read_object(j, type_keys, c, step_over));
    DT__TRY(dt__json_end(j));
    char *const kept = j->strings;
    *j = begin;
    j->strings = kept;
    if (c->model_type == NULL) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "%s: model_type is missing", c->path);
    }
    for (int i = 0; i < DT__COUNT_OF(gpts); i++) {
        if (strcmp(c->model_type, gpts[i].type) != 0) continue;
        out->is_gpt = true;
        out->type = gpts[i].type;
        out->names = gpts[i].names;
        out->tokens = gpts[i].tokens;
        return gpts[i].read(j, &out->gpt);
    }
    DT__TRY(dt__hf_config_read_llama(j, c, &out->llama, &found));
    if (found) {
        out->type = c->of->name;
        out->names = c->of->names;
        out->tokens = c->of->tokens;
        return DT_OK;
    }
    return dt__hf_refuse(c,
                         "model_type '%s' is not supported; llama, mistral, qwen2, qwen3, "
                         "mixtral, phi3, olmo2, smollm3, gemma3_text, gpt2 and gpt_neox are",
                         dt__shown(c->model_type, shown));
}

const void *dt__hf_options_of(const dt__hf_model *m, const dt_key **keys)
{
    *keys = m->is_gpt ? dt_gpt_keys : dt_llama_keys;
    return m->is_gpt ? (const void *)&m->gpt : &m->llama;
}

const char *dt__hf_tokens(bool is_gpt)
{
    return is_gpt ? "tokens.weight" : "model.embed_tokens.weight";
}

const char *dt__hf_head(bool is_gpt) { return is_gpt ? "head.weight" : "lm_head.weight"; }

dt_status dt__hf_config_read(dt_ctx *ctx, const dt__hf_text *text, dt__hf_model *out)
{
    dt__json j;
    char *strings;
    dt__hf_config c = { .ctx = ctx, .path = text->path };
    *out = (dt__hf_model){ .names = NULL };
    DT__TRY(dt__hf_scan(ctx, text, &j, &strings));
    const dt_status s = read_model(&j, &c, out);
    dt__release(ctx, strings);
    return s;
}
