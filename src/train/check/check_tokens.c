/* Whether ids of the data are those that a model of its own tokenizer learned. Another tokenizer of
 * the same vocabulary size gives each id another text, and no error. */
#include "core/text/json.h"
#include "data/text/tokenizer.h"
#include "train/run/run.h"

#include <string.h>

static bool same_token(const dt_tokenizer *a, const dt_tokenizer *b, int64_t i)
{
    const dt__token *x = &a->token[i], *y = &b->token[i];
    if (!x->there || !y->there) return true; /* that one has no such id */
    return x->n == y->n && memcmp(a->bytes + x->at, b->bytes + y->at, x->n) == 0;
}

static dt_status compare(dt_ctx *ctx, const char *path, const dt_tokenizer *own,
                         const dt_tokenizer *data)
{
    const int64_t n = dt__min_i64(own->vocab, data->vocab);
    char text[2][DT__SHOWN];
    int64_t others = 0, first = 0;
    for (int64_t i = 0; i < n; i++) {
        if (same_token(own, data, i)) continue;
        if (others++ == 0) first = i;
    }
    if (others == 0) return DT_OK;
    for (int k = 0; k < 2; k++) {
        const dt_tokenizer *of = k == 0 ? data : own;
        const dt__token *t = &of->token[first];
        char *copy = dt__format_string(ctx, "%.*s", (int)t->n, of->bytes + t->at);
        if (copy == NULL) return DT_ERR_NOMEM;
        dt__shown(copy, text[k]);
        dt__release(ctx, copy);
    }
    dt__say(ctx,
            "warning: %lld ids of data.tokenizer are other tokens than in %s, first %lld: '%s', "
            "not '%s': its weights were trained on its own",
            (long long)others, path, (long long)first, text[0], text[1]);
    return DT_OK;
}

dt_status dt__say_tokens(dt_ctx *ctx, const char *path, const char *text, const dt_tokenizer *data)
{
    const dt_tokenizer_texts texts = { .tokenizer = text };
    dt_tokenizer *own;
    if (text == NULL || data == NULL) return DT_OK;
    dt_status s = dt_tokenizer_of_model(ctx, &texts, path, &own);
    if (s != DT_OK) return s == DT_ERR_NOMEM ? s : DT_OK; /* one that is not read */
    s = compare(ctx, path, own, data);
    dt_tokenizer_free(own);
    return s;
}
