/* Finds the tokens that begin, end and pad texts of a Hugging Face folder's model. As in
 * transformers each is read from the first of these files that sets it: generation_config.json,
 * config.json (eos_token_id: an id or a list of ids), tokenizer_config.json,
 * special_tokens_map.json (eos_token: a text, or an object with a `content`); else it is the
 * default of the model's class, if that is an added token of the tokenizer. null and false set
 * nothing; so do an empty list and a negative id, with a warning; an end token beyond the
 * vocabulary never occurs. Of several end tokens the first is that of tokenizer_config.json, which
 * ends prompts and completions. */
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"

#include <string.h>

enum { BEGIN, END, PAD, KINDS };
static const char *const id_keys[KINDS] = { "bos_token_id", "eos_token_id", "pad_token_id" };
static const char *const text_keys[KINDS] = { "bos_token", "eos_token", "pad_token" };

typedef struct finding {
    dt_ctx *ctx;
    const dt_tokenizer *k; /* NULL: the folder has no supported tokenizer */
    int64_t vocab;         /* of the model */
    dt_text_tokens *to;
    dt_text_tokens by_text; /* from texts of tokenizer_config.json */
    const char *path;       /* of the current file */
    bool decided[KINDS];    /* a file set an id, though the model may not have it */
    bool silent;            /* no warnings, as the folder was opened before */
} finding;

static bool is_known(const dt_text_tokens *t, int kind)
{
    return kind == END ? t->n_end > 0 : (kind == BEGIN ? t->begin : t->pad) >= 0;
}

/* Warns of a value that is not a token; the next file decides. */
static dt_status say_nothing(finding *f, int kind, const char *what)
{
    if (kind == PAD || f->silent) return DT_OK; /* -1 often means no padding */
    dt__say_once(f->ctx, "warning: %s: %s is %s, and is not used", f->path, id_keys[kind], what);
    return DT_OK;
}

/* Adds an id; warns if it is beyond the vocabulary. */
static dt_status add_id(finding *f, dt_text_tokens *to, int kind, int64_t id)
{
    if (id < 0) return say_nothing(f, kind, "a negative id");
    if (to == f->to) f->decided[kind] = true;
    if (id >= f->vocab && f->silent) return DT_OK;
    if (id >= f->vocab) {
        dt__say_once(f->ctx,
                     "warning: %s: %s %lld is beyond the vocabulary of %lld tokens, and is "
                     "not used",
                     f->path, id_keys[kind], (long long)id, (long long)f->vocab);
        return DT_OK;
    }
    if (kind == BEGIN) to->begin = (int32_t)id;
    if (kind == PAD) to->pad = (int32_t)id;
    if (kind != END || dt__text_tokens_add_end(to, (int32_t)id)) return DT_OK;
    return dt_fail(f->ctx, DT_ERR_UNSUPPORTED, "%s: %s: more than %d ids", f->path, id_keys[kind],
                   DT_MOST_ENDS);
}

static bool is_nothing(dt__json *j)
{
    static const char word[] = "false";
    if (dt__json_null(j)) return true;
    if (dt__json_peek(j) != 'f') return false;
    const size_t n = sizeof word - 1;
    const bool found = (size_t)(j->end - j->at) >= n && memcmp(j->at, word, n) == 0;
    if (found) j->at += n;
    return found;
}

static dt_status read_one(finding *f, dt__json *j, int kind)
{
    int64_t id;
    const char c = dt__json_peek(j);
    if (c != '-' && (c < '0' || c > '9')) {
        return dt__json_fail(j, "%s must be an id%s, or null", id_keys[kind],
                             kind == END ? ", or a list of ids" : "");
    }
    DT__TRY(dt__json_signed(j, &id));
    return add_id(f, f->to, kind, id);
}

static dt_status read_ids(finding *f, dt__json *j, int kind)
{
    if (is_nothing(j)) return DT_OK;
    if (dt__json_peek(j) != '[') return read_one(f, j, kind);
    bool more = dt__json_open(j, '[');
    if (!more) return say_nothing(f, kind, "an empty list");
    for (int n = 0; more; more = dt__json_more(j, ']'), n++) {
        if (n > 0 && kind != END) {
            return dt__json_fail(j, "%s has several ids; one is supported", id_keys[kind]);
        }
        DT__TRY(read_one(f, j, kind));
    }
    return j->status;
}

/* Reads "text" or {"content": "text", ...}; *text NULL: neither. */
static dt_status read_text(dt__json *j, const char *key, const char **text)
{
    *text = NULL;
    if (is_nothing(j)) return DT_OK;
    if (dt__json_peek(j) == '"') return dt__json_string(j, text);
    if (dt__json_peek(j) != '{') {
        return dt__json_fail(j, "%s must be a text, an object with a content, or null", key);
    }
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        if (strcmp(name, "content") == 0) DT__TRY(dt__json_string(j, text));
        else DT__TRY(dt__json_skip(j));
    }
    return j->status;
}

static dt_status read_by_text(finding *f, dt__json *j, int kind)
{
    const char *text;
    char shown[DT__SHOWN];
    DT__TRY(read_text(j, text_keys[kind], &text));
    if (text == NULL || *text == 0 || f->k == NULL) return DT_OK;
    const int32_t id = dt_tokenizer_id(f->k, text);
    if (id >= 0) return add_id(f, f->to, kind, id);
    if (f->silent) return DT_OK;
    dt__say_once(f->ctx, "warning: %s: %s '%s' is not a token of the tokenizer, and is not used",
                 f->path, text_keys[kind], dt__shown(text, shown));
    return DT_OK;
}

typedef dt_status read_value(finding *f, dt__json *j, int kind);

static dt_status read_object(finding *f, dt__json *j, const char *const *keys, read_value *read)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        int kind = 0;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        while (kind < KINDS && strcmp(keys[kind], name) != 0) kind++;
        const bool wanted = kind < KINDS && !is_known(f->to, kind) && !f->decided[kind];
        DT__TRY(wanted ? read(f, j, kind) : dt__json_skip(j));
        j->strings = strings;
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

/* Reads what is still undecided from one file. */
static dt_status read_file(finding *f, const dt__hf_text *text, bool ids)
{
    dt__json j;
    char *strings;
    DT__TRY(dt__hf_scan(f->ctx, text, &j, &strings));
    f->path = j.path;
    const dt_status s =
        read_object(f, &j, ids ? id_keys : text_keys, ids ? read_ids : read_by_text);
    dt__release(f->ctx, strings);
    return s;
}

static dt_status read_extra(finding *f, const dt__hf_place *p, const char *name, bool ids)
{
    dt__hf_extra text;
    dt_status s = dt__hf_extra_read(p, name, &text);
    if (s == DT_OK && text.it.text != NULL) s = read_file(f, &text.it, ids);
    dt__hf_extra_free(p, &text);
    return s;
}

/* Tokens given by text fill what ids left undecided; an end token given by text comes first. */
static void take_texts(finding *f)
{
    const dt_text_tokens *by = &f->by_text;
    dt_text_tokens *to = f->to;
    if (!f->decided[BEGIN]) to->begin = by->begin;
    if (!f->decided[PAD]) to->pad = by->pad;
    if (by->n_end == 0) return;
    if (!f->decided[END]) dt__text_tokens_add_end(to, by->end[0]);
    for (int i = 1; i < to->n_end; i++) {
        if (to->end[i] != by->end[0]) continue;
        memmove(to->end + 1, to->end, (size_t)i * sizeof to->end[0]);
        to->end[0] = by->end[0];
    }
}

/* Reads all texts, also those of tokens that ids have decided. */
static dt_status read_texts(finding *f, const dt__hf_place *p, const char *name)
{
    finding apart = *f;
    apart.to = &f->by_text;
    memset(apart.decided, 0, sizeof apart.decided);
    return read_extra(&apart, p, name, false);
}

static void take_defaults(finding *f, const dt__hf_token_defaults *d)
{
    const int32_t id[KINDS] = { d->begin, d->end, d->pad };
    for (int kind = 0; kind < KINDS && f->k != NULL; kind++) {
        const bool added = id[kind] >= 0 && id[kind] < f->k->vocab && f->k->token[id[kind]].added;
        if (is_known(f->to, kind) || f->decided[kind] || !added || id[kind] >= f->vocab) continue;
        add_id(f, f->to, kind, id[kind]);
    }
}

static dt_status find(finding *f, const dt__hf_place *p, const dt__hf_token_defaults *usual)
{
    DT__TRY(read_extra(f, p, "generation_config.json", true));
    DT__TRY(read_file(f, p->config, true));
    DT__TRY(read_texts(f, p, "tokenizer_config.json"));
    DT__TRY(read_texts(f, p, "special_tokens_map.json"));
    take_texts(f);
    take_defaults(f, usual);
    return DT_OK;
}

dt_status dt__hf_find_tokens(const dt__hf_place *p, const dt__hf_model *model,
                             const dt_tokenizer *k, dt_text_tokens *out)
{
    *out = DT_NO_TEXT_TOKENS;
    finding f = { .ctx = p->ctx,
                  .k = k,
                  .vocab = model->is_gpt ? model->gpt.vocab : model->llama.vocab,
                  .to = out,
                  .silent = p->origin != NULL,
                  .by_text = DT_NO_TEXT_TOKENS };
    return find(&f, p, &model->tokens);
}
