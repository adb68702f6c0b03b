/* Compares tokenizer_config.json of a Hugging Face folder with tokenizer.json. As in transformers 5
 * the post_processor of tokenizer.json decides which tokens are added to a text, whatever
 * add_bos_token and add_eos_token say. */
#include "data/text/tokenizer.h"
#include "io/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct said {
    bool has_begin, begin, has_end, end,
        prefix;        /* add_bos_token, add_eos_token, add_prefix_space */
    const char *class; /* tokenizer_class */
} said;

typedef struct checking {
    const dt__hf_place *p;
    const dt_tokenizer *k;
    const char *path;
    bool has_decoder; /* has added_tokens_decoder, which replaces added_tokens.json */
    said said;
} checking;

typedef struct flags {
    const char *content;
    bool left, right, normalized, special, single;
} flags;

static dt_status read_flag(dt__json *j, const char *name, flags *f)
{
    const struct {
        const char *name;
        bool *to;
    } known[] = { { "lstrip", &f->left },
                  { "rstrip", &f->right },
                  { "normalized", &f->normalized },
                  { "special", &f->special },
                  { "single_word", &f->single } };
    if (dt__json_null(j)) return DT_OK;
    if (strcmp(name, "content") == 0) return dt__json_string(j, &f->content);
    for (int i = 0; i < DT__COUNT_OF(known); i++) {
        if (strcmp(known[i].name, name) == 0) return dt__json_bool(j, known[i].to);
    }
    return dt__json_skip(j);
}

/* The token with this id, if its text is `text`; else warns and returns NULL. */
static const dt__token *find_token(const checking *c, const char *key, const char *text)
{
    char *end, shown[DT__SHOWN];
    const long id = strtol(key, &end, 10);
    const bool is_id =
        end != key && *end == 0 && id >= 0 && id < c->k->vocab && c->k->token != NULL;
    const dt__token *t = is_id ? &c->k->token[id] : NULL;
    const size_t n = strlen(text);
    if (t != NULL && t->there && t->n == n && memcmp(c->k->bytes + t->at, text, n) == 0) return t;
    dt__say_once(c->p->ctx,
                 "warning: %s: added token %.20s is '%s', which tokenizer.json does not have "
                 "there: it is not used",
                 c->path, key, dt__shown(text, shown));
    return NULL;
}

static void compare(const checking *c, const char *key, const flags *f)
{
    char shown[DT__SHOWN];
    const dt__token *t = find_token(c, key, f->content);
    dt__shown(f->content, shown);
    if (t == NULL) return;
    if (t->added && t->special == f->special && t->left == f->left && t->right == f->right) return;
    dt__say_once(c->p->ctx,
                 "warning: %s: added token '%s' has other flags (special, lstrip, rstrip) than in "
                 "tokenizer.json, which is followed",
                 c->path, shown);
}

static dt_status read_decoder(dt__json *j, const checking *c)
{
    if (dt__json_null(j)) return DT_OK;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *key, *name;
        flags f = { NULL };
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &key));
        for (bool on = dt__json_open(j, '{'); on; on = dt__json_more(j, '}')) {
            DT__TRY(dt__json_key(j, &name));
            DT__TRY(read_flag(j, name, &f));
        }
        DT__TRY(j->status);
        if (f.content != NULL) compare(c, key, &f);
        j->strings = strings;
    }
    return j->status;
}

static dt_status read_bool(dt__json *j, bool *there, bool *out)
{
    if (dt__json_null(j)) return DT_OK;
    *there = true;
    return dt__json_bool(j, out);
}

static dt_status read_key(dt__json *j, const char *name, checking *c)
{
    bool there = false;
    said *s = &c->said;
    if (strcmp(name, "add_bos_token") == 0) return read_bool(j, &s->has_begin, &s->begin);
    if (strcmp(name, "add_eos_token") == 0) return read_bool(j, &s->has_end, &s->end);
    if (strcmp(name, "add_prefix_space") == 0) return read_bool(j, &there, &s->prefix);
    if (strcmp(name, "added_tokens_decoder") == 0) {
        c->has_decoder = true;
        return read_decoder(j, c);
    }
    if (strcmp(name, "tokenizer_class") != 0 || dt__json_null(j)) return dt__json_skip(j);
    return dt__json_string(j, &s->class);
}

static dt_status read_object(dt__json *j, checking *c)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        DT__TRY(read_key(j, name, c));
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

static void compare_template(const checking *c, const char *key, bool says, bool does)
{
    if (says == does) return;
    dt__say_once(c->p->ctx,
                 "warning: %s: %s is %s, but post_processor of tokenizer.json puts %s: "
                 "tokenizer.json is followed, as transformers 5 does",
                 c->path, key, says ? "true" : "false", does ? "such a token" : "no such token");
}

/* Whether the class in transformers ignores the pre_tokenizer of tokenizer.json and builds its own
 * with add_prefix_space. */
static bool splits_itself(const char *class)
{
    static const char *const classes[] = { "GPT2Tokenizer", "Qwen2Tokenizer", "GPTNeoXTokenizer" };
    for (int i = 0; i < DT__COUNT_OF(classes) && class != NULL; i++) {
        if (strncmp(class, classes[i], strlen(classes[i])) == 0) return true;
    }
    return false;
}

static dt_status check(const checking *c)
{
    const said *s = &c->said;
    if (c->k->kind != &dt__tokenizer_is_bpe) return DT_OK;
    if (s->has_begin) compare_template(c, "add_bos_token", s->begin, c->k->before.n > 0);
    if (s->has_end) compare_template(c, "add_eos_token", s->end, c->k->after.n > 0);
    if (!s->prefix || c->k->bpe.pieces || !splits_itself(s->class)) return DT_OK;
    return dt_fail(c->p->ctx, DT_ERR_UNSUPPORTED,
                   "%s: add_prefix_space true is not supported in class %s; false is", c->path,
                   s->class);
}

static dt_status read_own(dt__json *j, checking *c)
{
    DT__TRY(read_object(j, c));
    return check(c);
}

/* added_tokens.json of older folders: {"text": id, ...}. */
static dt_status read_added(dt__json *j, checking *c)
{
    char id[24];
    int64_t n;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *text;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &text));
        DT__TRY(dt__json_signed(j, &n));
        snprintf(id, sizeof id, "%lld", (long long)n);
        find_token(c, id, text);
        j->strings = strings;
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

typedef dt_status reader(dt__json *j, checking *c);

static dt_status read_file(checking *c, const char *name, reader *read)
{
    dt__hf_extra text;
    dt__json j;
    char *strings = NULL;
    DT__TRY(dt__hf_extra_read(c->p, name, &text));
    if (text.it.text == NULL) return DT_OK;
    dt_status s = dt__hf_scan(c->p->ctx, &text.it, &j, &strings);
    c->path = j.path;
    if (s == DT_OK) s = read(&j, c);
    dt__release(c->p->ctx, strings);
    dt__hf_extra_free(c->p, &text);
    return s;
}

dt_status dt__hf_check_tokenizer(const dt__hf_place *p, const dt_tokenizer *k)
{
    checking c = { .p = p, .k = k };
    DT__TRY(read_file(&c, "tokenizer_config.json", read_own));
    return c.has_decoder ? DT_OK : read_file(&c, "added_tokens.json", read_added);
}
