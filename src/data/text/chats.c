/* Chat formats. A message of a role is written, as tokens and text,
 *
 *     open  role  middle  separator text  stop  after
 *
 * where open, middle and stop are added tokens, and the rest is text, encoded between two tokens as
 * one piece. An assistant's text is encoded separately, as it is generated; it and its stop token
 * are targets of training. The formats are those of the templates of Qwen2 and SmolLM2 (chatml) and
 * of Llama 3. */
#include "data/text/chats.h"

#include "core/text/utf8.h"
#include "data/data_options.h"
#include "data/text/tokenizer.h"

#include <string.h>

const dt__chat_form dt__chat_forms[] = {
    [DT_CHAT_CHATML] = { .open = "<|im_start|>",
                         .stop = "<|im_end|>",
                         .separator = "\n",
                         .after = "\n",
                         .role = { "system", "user", "assistant" } },
    [DT_CHAT_LLAMA3] = { .begin = "<|begin_of_text|>",
                         .open = "<|start_header_id|>",
                         .middle = "<|end_header_id|>",
                         .stop = "<|eot_id|>",
                         .separator = "\n\n",
                         .after = "",
                         .trim = true,
                         .role = { "system", "user", "assistant" } },
    [DT_CHAT_PLAIN] = { .wrap = true,
                        .separator = ":\n",
                        .after = "\n",
                        .role = { "System", "User", "Assistant" } },
};

const char *dt__chat_characters(void) { return "System:User:Assistant:\n"; }

/* ---- tokens --------------------------------------------------------------------------------- */

static dt_status token_of(const dt_tokenizer *k, int f, const char *name, int32_t *out)
{
    *out = -1;
    if (name == NULL) return DT_OK;
    *out = dt_tokenizer_id(k, name);
    if (*out >= 0 && k->token[*out].added) return DT_OK;
    return dt_fail(k->ctx, DT_ERR_CONFIG,
                   "data.chat is %s, whose '%s' must be an added token of the tokenizer; 'plain' "
                   "takes any tokenizer",
                   dt__chat_names[f], name);
}

dt_status dt__chat_check(const dt_tokenizer *k, int f, int32_t *stop)
{
    int32_t id;
    DT__TRY(token_of(k, f, dt__chat_forms[f].begin, &id));
    DT__TRY(token_of(k, f, dt__chat_forms[f].open, &id));
    DT__TRY(token_of(k, f, dt__chat_forms[f].middle, &id));
    DT__TRY(token_of(k, f, dt__chat_forms[f].stop, stop));
    if (f == DT_CHAT_PLAIN) *stop = dt_tokenizer_end(k);
    return DT_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Marks the appended ids as targets of training, or not. */
static dt_status mark(const dt__chat_writer *w, int64_t before, bool learn)
{
    if (w->learned == NULL) return DT_OK;
    for (int64_t i = before; i < w->ids->n; i++) dt__put(w->learned, learn ? "\1" : "\0", 1);
    return w->learned->failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status put_token(const dt__chat_writer *w, const char *name, bool learn)
{
    int32_t id;
    const int64_t before = w->ids->n;
    DT__TRY(token_of(w->k, w->chat->form, name, &id));
    if (id >= 0) DT__TRY(dt_ids_put(w->ids, id));
    return mark(w, before, learn);
}

static dt_status put_text(const dt__chat_writer *w, const dt__chars *text, bool learn)
{
    const int64_t before = w->ids->n;
    if (text->failed) return DT_ERR_NOMEM;
    if (text->used > 0) {
        DT__TRY(dt_tokenizer_encode(w->k, text->bytes, text->used, NULL, w->ids));
    }
    return mark(w, before, learn);
}

#define SPACES (8 | 16) /* of dt__split_class */

/* Python's str.strip, with which templates trim. */
static bool is_space(const unsigned char *p, const unsigned char *end, int *n)
{
    *n = dt__utf8_length(p, end);
    const uint32_t c = *n > 0 ? dt__utf8_get(p, *n) : 0;
    return *n > 0 && ((c >= 0x1c && c <= 0x1f) || (dt__split_class(c) & SPACES) != 0);
}

void dt__chat_trim(const dt__chat_form *f, const char *text, size_t bytes, dt__chars *out)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + bytes;
    int n;
    while (f->trim && p < end && is_space(p, end, &n)) p += n;
    for (const unsigned char *q = end; f->trim && q > p; end = q) {
        do q--;
        while (q > p && (*q & 0xc0) == 0x80);
        if (!is_space(q, end, &n)) break;
    }
    dt__put(out, (const char *)p, (size_t)(end - p));
}

/* Writes what precedes the text of a message; *text: the beginning of the piece with the text. */
static dt_status put_head(const dt__chat_writer *w, int role, dt__chars *text)
{
    const dt__chat_form *f = &dt__chat_forms[w->chat->form];
    DT__TRY(put_token(w, f->open, false));
    dt__put_text(text, f->role[role]);
    if (f->middle != NULL) {
        DT__TRY(put_text(w, text, false));
        text->used = 0;
        DT__TRY(put_token(w, f->middle, false));
    }
    dt__put_text(text, f->separator);
    return text->failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status put_beginning(const dt__chat_writer *w)
{
    static const dt_encoding wrapped = { .wrap = true };
    const dt__chat_form *f = &dt__chat_forms[w->chat->form];
    const int64_t before = w->ids->n;
    if (f->wrap) DT__TRY(dt_tokenizer_encode(w->k, "", 0, &wrapped, w->ids));
    DT__TRY(mark(w, before, false));
    return put_token(w, f->begin, false);
}

/* If no token ends texts, an answer of form PLAIN ends with a line break. */
static dt_status put_stop(const dt__chat_writer *w, bool learn, dt__chars *text)
{
    const dt__chat_form *f = &dt__chat_forms[w->chat->form];
    const int32_t end = w->chat->form == DT_CHAT_PLAIN ? dt_tokenizer_end(w->k) : -1;
    const int64_t before = w->ids->n;
    if (end >= 0) {
        DT__TRY(dt_ids_put(w->ids, end));
        DT__TRY(mark(w, before, learn));
    }
    DT__TRY(put_token(w, f->stop, learn));
    text->used = 0;
    dt__put_text(text, f->after);
    return put_text(w, text, learn && end < 0 && f->stop == NULL);
}

static dt_status put_message(const dt__chat_writer *w, const dt_message *m, bool learn,
                             dt__chars *text)
{
    const dt__chat_form *f = &dt__chat_forms[w->chat->form];
    DT__TRY(put_head(w, m->role, text));
    if (m->role == DT_ROLE_ASSISTANT) {
        DT__TRY(put_text(w, text, false));
        text->used = 0;
        dt__chat_trim(f, m->text, m->bytes, text);
        DT__TRY(put_text(w, text, learn));
        return put_stop(w, learn, text);
    }
    dt__chat_trim(f, m->text, m->bytes, text);
    if (f->stop == NULL) dt__put_text(text, f->after);
    DT__TRY(put_text(w, text, false));
    return f->stop == NULL ? DT_OK : put_stop(w, false, text);
}

dt_status dt__chat_put(const dt__chat_writer *w, const dt_message *m, bool first, bool learn)
{
    dt__chars text = { .ctx = w->k->ctx };
    dt_status s = first ? put_beginning(w) : DT_OK;
    if (s == DT_OK && first && w->chat->system != NULL && m->role != DT_ROLE_SYSTEM) {
        const dt_message system = { DT_ROLE_SYSTEM, w->chat->system, strlen(w->chat->system) };
        s = put_message(w, &system, false, &text);
        text.used = 0;
    }
    if (s == DT_OK) s = put_message(w, m, learn, &text);
    dt__release(w->k->ctx, text.bytes);
    return s;
}

static dt_status put_prompt(const dt__chat_writer *w, const dt_message *m, int64_t n)
{
    dt__chars text = { .ctx = w->k->ctx };
    for (int64_t i = 0; i < n; i++) DT__TRY(dt__chat_put(w, &m[i], i == 0, false));
    dt_status s = put_head(w, DT_ROLE_ASSISTANT, &text);
    if (s == DT_OK) s = put_text(w, &text, false);
    dt__release(w->k->ctx, text.bytes);
    return s;
}

dt_status dt_chat_prompt(const dt_tokenizer *k, const dt_chat *chat, const dt_message *m, int64_t n,
                         dt_ids *ids)
{
    int32_t stop;
    DT__NEED(NULL, k);
    DT__NEED3(k->ctx, chat, m, ids);
    if (chat->form <= DT_CHAT_AUTO || chat->form >= DT__COUNT_OF(dt__chat_forms) || n < 1) {
        return dt_fail(k->ctx, DT_ERR_ARG,
                       "chat: form %d and %lld messages; expected a form of 1 to %d, and at least "
                       "one message",
                       chat->form, (long long)n, DT__COUNT_OF(dt__chat_forms) - 1);
    }
    for (int64_t i = 0; i < n; i++) {
        if (m[i].role >= DT_ROLE_SYSTEM && m[i].role <= DT_ROLE_ASSISTANT) continue;
        return dt_fail(k->ctx, DT_ERR_ARG, "chat: message %lld has role %d; expected 0 to 2",
                       (long long)i, m[i].role);
    }
    DT__TRY(dt__chat_check(k, chat->form, &stop));
    if (ids->ctx == NULL) ids->ctx = k->ctx;
    const int64_t before = ids->n;
    const dt__chat_writer w = { k, chat, ids, NULL };
    const dt_status s = put_prompt(&w, m, n);
    if (s != DT_OK) ids->n = before;
    return s;
}
