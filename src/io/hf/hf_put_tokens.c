/* Writes the tokens that begin, end and pad texts into the files of a Hugging Face folder. A file
 * that was read keeps its other keys. */
#include "data/text/tokenizer.h"
#include "io/hf/hf_config.h"

#include <string.h>

static const char *const id_keys[] = { "bos_token_id", "eos_token_id", "pad_token_id", NULL };
static const char *const text_keys[] = { "bos_token", "eos_token", "pad_token", NULL };

static void put_id(dt__chars *t, const char *key, int32_t id)
{
    if (id < 0) dt__hf_put_null(t, key);
    else dt__hf_put_int(t, key, id);
}

void dt__hf_put_ids(dt__chars *t, const dt_text_tokens *k)
{
    put_id(t, id_keys[0], k->begin);
    if (k->n_end < 2) put_id(t, id_keys[1], k->n_end == 0 ? -1 : k->end[0]);
    for (int i = 0; i < k->n_end && k->n_end > 1; i++) {
        if (i == 0) dt__hf_put_key(t, id_keys[1]);
        dt__put_text(t, i == 0 ? "[" : ", ");
        dt__put_integer(t, k->end[i]);
    }
    if (k->n_end > 1) dt__put_text(t, "]");
    put_id(t, id_keys[2], k->pad);
}

/* Writes a key for each of these tokens that has a text in the tokenizer. */
static void put_texts(dt__chars *t, const dt__hf_said *s)
{
    const dt_text_tokens *k = s->tokens;
    const int32_t id[] = { k->begin, k->n_end == 0 ? -1 : k->end[0], k->pad };
    for (int i = 0; i < DT__COUNT_OF(id) && s->tokenizer != NULL; i++) {
        const bool there = id[i] >= 0 && id[i] < s->tokenizer->vocab;
        const dt__token *token = there ? &s->tokenizer->token[id[i]] : NULL;
        if (token == NULL || !token->added) continue;
        dt__hf_put_key(t, text_keys[i]);
        dt__put_quoted_bytes(t, s->tokenizer->bytes + token->at, token->n);
    }
}

static bool has_ids(const char *name)
{
    return strcmp(name, "generation_config.json") == 0 || strcmp(name, DT__HF_CONFIG) == 0;
}

bool dt__hf_has_tokens(const char *name)
{
    return has_ids(name) || strcmp(name, "tokenizer_config.json") == 0 ||
           strcmp(name, "special_tokens_map.json") == 0;
}

dt_status dt__hf_put_said(dt__chars *t, const dt__hf_text *text, const dt__hf_said *s)
{
    static const char empty[] = "{}";
    const dt__hf_text none = { text->path, empty, sizeof empty - 1 };
    const bool ids = has_ids(text->path);
    dt__chars added = { .ctx = t->ctx };
    if (ids) dt__hf_put_ids(&added, s->tokens);
    else put_texts(&added, s);
    if (text->text == NULL && !ids) {
        dt__hf_put_text(&added, "tokenizer_class", "PreTrainedTokenizerFast");
    }
    const char *keys = dt__chars_text(&added);
    const dt_status status = keys == NULL ? DT_ERR_NOMEM
                                          : dt__hf_put_without(t, text->text == NULL ? &none : text,
                                                               ids ? id_keys : text_keys, keys);
    dt__release(t->ctx, added.bytes);
    return status;
}
