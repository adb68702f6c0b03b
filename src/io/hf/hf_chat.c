/* The chat template of a model, for the files that are written of it. */
#include "data/text/chats.h"
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"

#include <string.h>

/* Whether the template writes chats as the model was trained on them. */
static bool is_same(const dt__chat_found *f, const dt_model_data *d)
{
    const bool one = f->system != NULL && d->system != NULL;
    return f->form == d->chat && (one ? strcmp(f->system, d->system) == 0 : f->system == d->system);
}

/* That of the source in *out, if the model may keep it. */
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

/* The text of the token that ends texts, which the caller frees; NULL: there is none. */
static dt_status end_of(dt_ctx *ctx, const dt_model_info *info, char **out)
{
    const dt_tokenizer_texts own = { info->tokenizer, info->tokens };
    dt_tokenizer *k;
    *out = NULL;
    if (own.tokenizer == NULL) return DT_OK;
    DT__TRY(dt_tokenizer_of_model(ctx, &own, "the model's tokenizer", &k));
    const int32_t end = dt_tokenizer_end(k);
    const dt__token *t = end >= 0 && end < k->vocab ? &k->token[end] : NULL;
    if (t != NULL && t->added) *out = dt__format_string(ctx, "%.*s", (int)t->n, k->bytes + t->at);
    const bool failed = t != NULL && t->added && *out == NULL;
    dt_tokenizer_free(k);
    return failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make(dt_ctx *ctx, const dt_model_info *info, const dt_model_data *d, char **out)
{
    const dt_chat chat = { d->chat, d->system };
    dt__chars t = { .ctx = ctx };
    char *end;
    DT__TRY(end_of(ctx, info, &end));
    dt__chat_put_jinja(&t, &chat, end);
    dt__release(ctx, end);
    if (dt__chars_text(&t) == NULL) {
        dt__release(ctx, t.bytes);
        return DT_ERR_NOMEM;
    }
    *out = t.bytes;
    return DT_OK;
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
