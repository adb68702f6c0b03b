/* Chooses the chat template that exports write. */
#include "data/text/chats.h"
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"

#include <string.h>

/* Whether the template formats chats as in the model's training data. */
static bool is_same(const dt__chat_found *f, const dt_model_data *d)
{
    const bool one = f->system != NULL && d->system != NULL;
    return f->form == d->chat && (one ? strcmp(f->system, d->system) == 0 : f->system == d->system);
}

/* *out: the source's template, if it fits the training data; else NULL. */
static dt_status keep_source(dt_ctx *ctx, const char *text, const dt_model_data *d, char **out)
{
    dt__chat_found f = { .form = DT_CHAT_AUTO };
    DT__TRY(dt__chat_jinja_in(ctx, text, "the model's chat template", out));
    if (*out == NULL || d->chat == DT_CHAT_AUTO) return DT_OK;
    const dt_status s = dt__chat_recognize(ctx, *out, "the model", &f);
    const bool keeps = s == DT_OK && is_same(&f, d);
    dt__release(ctx, f.system);
    if (keeps) return DT_OK;
    dt__release(ctx, *out);
    *out = NULL;
    return s == DT_ERR_NOMEM ? s : DT_OK;
}

/* Appends the text of an added token. */
static void put_added(dt__chars *t, const dt_tokenizer *k, int32_t id)
{
    const dt__token *of = id >= 0 && id < k->vocab ? &k->token[id] : NULL;
    if (of != NULL && of->added) dt__put(t, k->bytes + of->at, of->n);
}

/* The texts of the tokens that begin and end texts; the caller frees them. */
static dt_status ends_of(dt_ctx *ctx, const dt_model_info *info, dt__chars *begin, dt__chars *end)
{
    static const dt_encoding wrapped = { .wrap = true };
    const dt_tokenizer_texts own = { info->tokenizer, info->tokens };
    dt_tokenizer *k;
    dt_ids ids = { .ctx = ctx };
    if (own.tokenizer == NULL) return DT_OK;
    DT__TRY(dt_tokenizer_of_model(ctx, &own, "the model's tokenizer", &k));
    const dt_status s = dt_tokenizer_encode(k, "", 0, &wrapped, &ids);
    for (int64_t i = 0; i < ids.n; i++) put_added(begin, k, ids.id[i]);
    put_added(end, k, dt_tokenizer_end(k));
    dt_ids_free(&ids);
    dt_tokenizer_free(k);
    return begin->failed || end->failed ? DT_ERR_NOMEM : s;
}

static dt_status make(dt_ctx *ctx, const dt_model_info *info, const dt_model_data *d, char **out)
{
    const dt_chat chat = { d->chat, d->system };
    dt__chars t = { .ctx = ctx }, part[2] = { { .ctx = ctx }, { .ctx = ctx } };
    dt_status s = ends_of(ctx, info, &part[0], &part[1]);
    const dt__chat_ends ends = { dt__chars_text(&part[0]), dt__chars_text(&part[1]) };
    if (s == DT_OK && (ends.begin == NULL || ends.end == NULL)) s = DT_ERR_NOMEM;
    if (s == DT_OK) dt__chat_put_jinja(&t, &chat, &ends);
    DT__RELEASE(ctx, part[0].bytes, part[1].bytes);
    if (s == DT_OK && dt__chars_text(&t) == NULL) s = DT_ERR_NOMEM;
    if (s != DT_OK) dt__release(ctx, t.bytes);
    else *out = t.bytes;
    return s;
}

dt_status dt__hf_chat_of_model(dt_ctx *ctx, const dt_model_info *info, char **out)
{
    dt_model_data d = { .chat = DT_CHAT_AUTO };
    char *source = NULL;
    *out = NULL;
    if (info->data != NULL) DT__TRY(dt_model_data_parse(ctx, info->data, "the model", &d));
    dt_status s = info->hf == NULL ? DT_OK : dt__hf_chat_template(ctx, info->hf, &source);
    if (s == DT_OK && source != NULL) s = keep_source(ctx, source, &d, out);
    if (s == DT_OK && *out == NULL && d.chat != DT_CHAT_AUTO) s = make(ctx, info, &d, out);
    dt__release(ctx, source);
    dt_model_data_free(ctx, &d);
    return s;
}
