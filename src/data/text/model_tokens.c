/* Metadata of a model: the tokens that begin, end and pad its texts, as JSON:
 *     {"begin": 1, "end": [2, 7], "pad": 0}
 * Fields may be missing; of several end tokens, the first one ends training data. */
#include "data/text/tokenizer.h"

#include <string.h>

bool dt_text_tokens_end(const dt_text_tokens *t, int32_t id)
{
    for (int i = 0; t != NULL && i < t->n_end; i++) {
        if (t->end[i] == id) return true;
    }
    return false;
}

bool dt__text_tokens_add_end(dt_text_tokens *t, int32_t id)
{
    if (dt_text_tokens_end(t, id)) return true;
    if (t->n_end == DT_MOST_ENDS) return false;
    t->end[t->n_end++] = id;
    return true;
}

static dt_status read_ends(dt__json *j, dt_text_tokens *out)
{
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        int32_t id;
        DT__TRY(dt__read_id(j, "end", &id));
        if (!dt__text_tokens_add_end(out, id)) {
            return dt__json_fail(j, "more than %d tokens that end a text", DT_MOST_ENDS);
        }
    }
    return j->status;
}

static dt_status read_tokens(dt__json *j, dt_text_tokens *out)
{
    enum { BEGIN, END, PAD, KEYS };
    static const char *const names[] = { "begin", "end", "pad", NULL };
    const unsigned char *at[KEYS];
    DT__TRY(dt__json_fields(j, "the tokens", names, at));
    DT__TRY(dt__json_end(j));
    for (int i = 0; i < KEYS; i++) {
        if (at[i] == NULL) continue;
        j->at = at[i];
        if (i == END) DT__TRY(read_ends(j, out));
        else DT__TRY(dt__read_id(j, names[i], i == BEGIN ? &out->begin : &out->pad));
    }
    return DT_OK;
}

dt_status dt_text_tokens_parse(dt_ctx *ctx, const char *text, const char *name, dt_text_tokens *out)
{
    DT__NEED2(ctx, ctx, out);
    *out = DT_NO_TEXT_TOKENS;
    if (text == NULL) return DT_OK;
    const size_t bytes = strlen(text);
    char *strings = dt__alloc(ctx, bytes + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text;
    dt__json j = { .ctx = ctx,
                   .path = name,
                   .what = "detent.tokens",
                   .begin = begin,
                   .at = begin,
                   .end = begin + bytes,
                   .strings = strings };
    const dt_status s = read_tokens(&j, out);
    dt__release(ctx, strings);
    return s;
}

void dt__text_tokens_put(dt__chars *t, const dt_text_tokens *k)
{
    bool first = true;
    dt__put_text(t, "{");
    if (k->begin >= 0) {
        dt__put_comma(t, &first);
        DT__PUT_ALL(t, "\"begin\":", k->begin);
    }
    for (int i = 0; i < k->n_end; i++) {
        if (i == 0) dt__put_comma(t, &first);
        dt__put_text(t, i == 0 ? "\"end\":[" : ",");
        dt__put_integer(t, k->end[i]);
    }
    if (k->n_end > 0) dt__put_text(t, "]");
    if (k->pad >= 0) {
        dt__put_comma(t, &first);
        DT__PUT_ALL(t, "\"pad\":", k->pad);
    }
    dt__put_text(t, "}");
}

bool dt__text_tokens_none(const dt_text_tokens *t)
{
    return t->begin < 0 && t->pad < 0 && t->n_end == 0;
}

dt_text_tokens dt_tokenizer_tokens(const dt_tokenizer *k)
{
    return k == NULL ? DT_NO_TEXT_TOKENS : k->tokens;
}

dt_status dt_tokenizer_of_model(dt_ctx *ctx, const dt_tokenizer_texts *from, const char *name,
                                dt_tokenizer **out)
{
    dt_text_tokens tokens;
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__NEED(ctx, from);
    DT__NEED(ctx, from->tokenizer);
    DT__TRY(dt_text_tokens_parse(ctx, from->tokens, name, &tokens));
    DT__TRY(dt_tokenizer_parse(ctx, from->tokenizer, strlen(from->tokenizer), name, out));
    (*out)->tokens = tokens;
    return DT_OK;
}

static int32_t added_or_none(const dt_tokenizer *k, int32_t id)
{
    return id >= 0 && id < k->vocab && k->token[id].added ? id : -1;
}

bool dt__tokenizer_take_tokens(dt_tokenizer *k, const dt_text_tokens *from)
{
    dt_text_tokens to = DT_NO_TEXT_TOKENS;
    to.begin = added_or_none(k, from->begin);
    to.pad = added_or_none(k, from->pad);
    for (int i = 0; i < from->n_end; i++) {
        if (added_or_none(k, from->end[i]) >= 0) dt__text_tokens_add_end(&to, from->end[i]);
    }
    k->tokens = to;
    return to.n_end == from->n_end;
}
