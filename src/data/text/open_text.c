/* Opens the text datasets that `data:` of a recipe names: text files, JSON lines, files of ids.
 * Validation text is split off before tokenization, so no token spans both parts. Data that do not
 * fit the recipe are CONFIG errors, whose message begins with the key. */
#include "data/text/chats.h"
#include "data/data_options.h"
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { TRAIN, VALIDATION, TEST, PARTS };

static const char *const part_names[] = { "train", "validation", "test" };

typedef struct opening {
    dt_ctx *ctx;
    const dt_data_options *o;
    dt_tokenizer *tokenizer;
    dt_chat chat;         /* form AUTO: no chats */
    dt__chat_found found; /* owns chat.system, if it is from the template */
    dt_dataset **part[PARTS];
} opening;

/* Creates the dataset, which takes ownership of the fields. */
static dt_status make(opening *s, int part, dt_dataset *d)
{
    d->tokenizer = dt__tokenizer_retain(s->tokenizer);
    return dt__sequences_wrap(s->ctx, d, s->part[part]);
}

/* ---- running text --------------------------------------------------------------------------- */

/* Makes a dataset of `length` tokens of a store from `begin` on; takes over the reference to the
 * store. */
static dt_status make_running(opening *s, int part, dt__token_store *store, int64_t begin,
                              int64_t length)
{
    const int64_t context = s->o->context, least = part == TRAIN ? context + 1 : 2;
    dt_dataset d = { .classes = s->tokenizer == NULL ? 0 : dt_tokenizer_vocab(s->tokenizer),
                     .context = context,
                     .store = store,
                     .begin = begin,
                     .length = length };
    if (length >= least) return make(s, part, &d);
    dt__token_store_release(store);
    if (part == TRAIN) {
        return dt_fail(s->ctx, DT_ERR_CONFIG,
                       "data.context is %lld, but data.train holds %lld token%s: %lld at most fit",
                       (long long)context, (long long)length, DT__S(length),
                       length > 0 ? (long long)length - 1 : 0);
    }
    return dt_fail(s->ctx, DT_ERR_CONFIG, "data.%s: %lld token%s; expected 2 at least",
                   part_names[part], (long long)length, DT__S(length));
}

/* ---- text to tokens ------------------------------------------------------------------------- */

/* A range of documents, of one part of the data. */
typedef struct range {
    const dt__documents *c;
    int64_t begin, end;
    int part;
} range;

static dt_status encode(opening *s, const range *r, int64_t i, const dt_encoding *how, dt_ids *ids)
{
    const dt__document d = r->c->at[i];
    const char *text = d.end == 0 ? "" : r->c->text.bytes + d.begin;
    const dt_status status = dt_tokenizer_encode(s->tokenizer, text, d.end - d.begin, how, ids);
    if (status != DT_ERR_FORMAT) return status;
    char words[DT__MESSAGE_SIZE / 2];
    snprintf(words, sizeof words, "%s", dt_error(s->ctx));
    return dt_fail(s->ctx, DT_ERR_CONFIG, "data.%s: text %lld of it: %s",
                   r->part == TEST ? "test" : "train", (long long)(i - r->begin) + 1, words);
}

static dt_status join(opening *s, const range *r, dt_ids *ids)
{
    const int32_t end = dt_tokenizer_end(s->tokenizer);
    for (int64_t i = r->begin; i < r->end; i++) {
        DT__TRY(encode(s, r, i, NULL, ids));
        if (end >= 0 && i + 1 < r->end) DT__TRY(dt_ids_put(ids, end));
    }
    return DT_OK;
}

/* ---- prompts and completions, chats --------------------------------------------------------- */

/* Statistics of the pairs, or chats, of a part. */
typedef struct pairs {
    dt__token_store *store;
    dt__sequence *piece;
    int64_t n, longest; /* number of pieces; tokens of the longest one that fits */
    int64_t left_out, too_long;
} pairs;

/* Adds the tokens of a pair; *empty: its completion has none. */
static dt_status put_pair(opening *s, const range *r, int64_t i, pairs *p, bool *empty)
{
    static const dt_encoding begins = { .wrap = true };
    dt_ids *ids = &p->store->ids;
    const int32_t end = dt_tokenizer_end(s->tokenizer);
    dt__sequence *piece = &p->piece[p->n];
    DT__TRY(encode(s, r, i, &begins, ids));
    const int64_t prompt = ids->n - piece->begin;
    piece->first = dt__max_i64(1, prompt);
    DT__TRY(encode(s, r, i + 1, NULL, ids));
    *empty = ids->n - piece->begin == prompt;
    return end >= 0 ? dt_ids_put(ids, end) : DT_OK;
}

/* Adds the tokens of a chat, and which of them are targets of training. */
static dt_status put_chat(opening *s, const range *r, int64_t i, pairs *p)
{
    const dt__documents *c = r->c;
    const dt__document d = c->at[i];
    dt__token_store *store = p->store;
    const dt__chat_writer w = { s->tokenizer, &s->chat, &store->ids, &store->learned };
    dt__sequence *piece = &p->piece[p->n];
    for (int64_t k = 0; k < d.n_turns; k++) {
        const dt__turn t = c->turn[d.turn + k];
        const dt_message m = { t.role, c->text.bytes + t.begin, t.end - t.begin };
        DT__TRY(dt__chat_put(&w, &m, k == 0, t.learned));
    }
    int64_t first = piece->begin;
    while (first < store->ids.n && store->learned.bytes[first] == 0) first++;
    piece->first = dt__max_i64(1, first - piece->begin);
    return DT_OK;
}

static dt_status add_piece(opening *s, const range *r, int64_t i, pairs *p)
{
    dt_ids *ids = &p->store->ids;
    dt__sequence *piece = &p->piece[p->n];
    bool empty = false;
    *piece = (dt__sequence){ .begin = ids->n };
    DT__TRY(r->c->chats ? put_chat(s, r, i, p) : put_pair(s, r, i, p, &empty));
    piece->n = ids->n - piece->begin;
    if (piece->n > s->o->context + 1) {
        p->left_out++;
        p->too_long = dt__max_i64(p->too_long, piece->n);
        ids->n = piece->begin;
        if (r->c->chats) p->store->learned.used = (size_t)piece->begin;
        return DT_OK;
    }
    if (empty || piece->n <= piece->first) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "data.%s: example %lld of it has no %s",
                       part_names[r->part], (long long)(i - r->begin) / (r->c->chats ? 1 : 2) + 1,
                       empty ? "completion" : "prompt, and a completion of one token");
    }
    p->longest = dt__max_i64(p->longest, piece->n);
    p->n++;
    return DT_OK;
}

static dt_status collect(opening *s, const range *r, pairs *p)
{
    const int64_t each = r->c->chats ? 1 : 2;
    for (int64_t i = r->begin; i < r->end; i += each) DT__TRY(add_piece(s, r, i, p));
    if (p->n == 0) {
        return dt_fail(
            s->ctx, DT_ERR_CONFIG,
            "data.context is %lld, but every example of data.%s is longer: the longest has "
            "%lld tokens, which requires data.context %lld",
            (long long)s->o->context, part_names[r->part], (long long)p->too_long,
            (long long)p->too_long - 1);
    }
    if (p->left_out == 0) return DT_OK;
    dt__say(s->ctx,
            "data.%s: %lld of %lld examples have more tokens than data.context, %lld, takes, "
            "and are left out; the longest has %lld",
            part_names[r->part], (long long)p->left_out, (long long)(p->left_out + p->n),
            (long long)s->o->context, (long long)p->too_long);
    return DT_OK;
}

/* Stores in the dataset how lines were formatted; false: NOMEM. */
static bool keep_forms(const opening *s, dt_dataset *d)
{
    const char *const from[] = { s->o->prompt, s->o->completion, s->chat.system };
    const char **const to[] = { &d->prompt, &d->completion, &d->system };
    d->chat = s->chat.form;
    for (int i = 0; i < DT__COUNT_OF(to); i++) {
        if (from[i] != NULL && (*to[i] = dt__text(s->ctx, "%s", from[i])) == NULL) return false;
    }
    return true;
}

static dt_status make_pairs(opening *s, const range *r)
{
    pairs p = { .store = dt__token_store_create(s->ctx) };
    dt__storage *pieces = dt__storage_create(
        s->ctx, (uint64_t)((r->end - r->begin) / (r->c->chats ? 1 : 2)) * sizeof *p.piece);
    dt_status status = p.store == NULL || pieces == NULL ? DT_ERR_NOMEM : DT_OK;
    if (status == DT_OK) {
        p.piece = pieces->data;
        status = collect(s, r, &p);
    }
    if (status != DT_OK) {
        dt__token_store_release(p.store);
        dt__storage_release(pieces);
        return status;
    }
    dt_dataset d = { .count = p.n,
                     .classes = dt_tokenizer_vocab(s->tokenizer),
                     .context = p.longest - 1,
                     .store = p.store,
                     .pieces = pieces };
    const bool failed = !keep_forms(s, &d);
    status = make(s, r->part, &d);
    if (status != DT_OK || !failed) return status;
    dt_dataset_free(*s->part[r->part]);
    *s->part[r->part] = NULL;
    return DT_ERR_NOMEM;
}

static dt_status make_part(opening *s, const range *r)
{
    if (r->c->pairs || r->c->chats) return make_pairs(s, r);
    dt__token_store *store = dt__token_store_create(s->ctx);
    if (store == NULL) return DT_ERR_NOMEM;
    const dt_status status = join(s, r, &store->ids);
    if (status == DT_OK) return make_running(s, r->part, store, 0, store->ids.n);
    dt__token_store_release(store);
    return status;
}

/* ---- tokenizers -------------------------------------------------------------------------- */

/* Looks up the model's special tokens in the recipe's tokenizer. */
static dt_status take_tokens(opening *s)
{
    dt_text_tokens tokens;
    DT__TRY(dt_text_tokens_parse(s->ctx, s->o->given_tokens, "the model's tokens", &tokens));
    if (dt__tokenizer_take_tokens(s->tokenizer, &tokens)) return DT_OK;
    dt__say(s->ctx,
            "data.tokenizer: tokens that end a text of the model, such as %d, are not added tokens "
            "of this tokenizer, and end none here",
            tokens.end[0]);
    return DT_OK;
}

/* ---- forms of chats ------------------------------------------------------------------------- */

static dt_status find_form(opening *s)
{
    const dt_data_options *o = s->o;
    const bool file = o->given == NULL && strcmp(o->tokenizer, "bytes") != 0 &&
                      strcmp(o->tokenizer, "chars") != 0;
    if (o->given_template != NULL) {
        DT__TRY(dt__chat_recognize(s->ctx, o->given_template, "the model", &s->found));
    }
    if (s->found.form == DT_CHAT_AUTO) {
        DT__TRY(dt__chat_find(s->tokenizer, file ? o->tokenizer : NULL, &s->found));
    }
    s->chat = (dt_chat){ s->found.form, o->system != NULL ? o->system : s->found.system };
    dt__say(s->ctx, "data.chat: %s%s%s", dt__chat_names[s->chat.form],
            s->chat.system == NULL ? "" : "; the system's message of lines without one: ",
            s->chat.system == NULL ? "" : s->chat.system);
    return DT_OK;
}

/* Chooses the chat format, and makes the token that ends an answer an end token. */
static dt_status take_form(opening *s)
{
    int32_t stop = -1;
    s->chat = (dt_chat){ s->o->chat, s->o->system };
    if (s->chat.form == DT_CHAT_AUTO) DT__TRY(find_form(s));
    DT__TRY(dt__chat_check(s->tokenizer, s->chat.form, &stop));
    if (stop < 0 || dt__text_tokens_add_end(&s->tokenizer->tokens, stop)) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_CONFIG, "data.tokenizer: more than %d tokens that end a text",
                   DT_MOST_ENDS);
}

/* ---- files of text -------------------------------------------------------------------------- */

static bool is_chars(const opening *s)
{
    return s->o->given == NULL && strcmp(s->o->tokenizer, "chars") == 0;
}

/* Checks that text is valid UTF-8, unless the tokenizer is of bytes. */
static dt_status check_text(const opening *s, const dt__documents *c, const char *path,
                            int64_t first)
{
    int64_t line;
    for (int64_t i = first; i < c->n && is_chars(s); i++) {
        const int64_t bad = dt__documents_find_bad(c, i, &line);
        if (bad < 0) continue;
        return dt_fail(s->ctx, DT_ERR_CONFIG,
                       "data.tokenizer is chars, but '%s' is not UTF-8: byte %lld, in line %lld; "
                       "'bytes' takes any text",
                       path, (long long)bad, (long long)line);
    }
    return DT_OK;
}

static dt_status read_file(const opening *s, const char *key, const char *name, dt__documents *c)
{
    const int64_t before = c->n;
    const size_t begin = c->text.used;
    char *path = dt__data_path(s->ctx, s->o->dir, name);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status status = s->o->format == DT_DATA_JSONL ? dt__documents_add_lines(c, path)
                                                     : dt__documents_add_text(c, path);
    if (status == DT_OK && c->text.used == begin) {
        status = dt_fail(s->ctx, DT_ERR_CONFIG, "%s: '%s' is empty", key, path);
    }
    if (status == DT_OK) status = check_text(s, c, path, before);
    dt__release(s->ctx, path);
    return status;
}

static dt_status read_files(const opening *s, const char *part, const dt_strings *names,
                            dt__documents *c)
{
    char key[32];
    for (int i = 0; i < names->n; i++) {
        snprintf(key, sizeof key, "data.%s.%d", part, i);
        DT__TRY(read_file(s, key, names->v[i], c));
    }
    return DT_OK;
}

/* Finds the documents for training; the last one may be split. */
static dt_status cut(const opening *s, dt__documents *c, int64_t *kept)
{
    const double share = 1 - s->o->validation;
    *kept = c->n;
    if (s->o->validation == 0) return DT_OK;
    if (s->o->format == DT_DATA_JSONL) {
        const int64_t each = c->pairs ? 2 : 1;
        *kept = each * (int64_t)(share * (double)(c->n / each));
        if (*kept > 0 && *kept < c->n) return DT_OK;
        return dt_fail(s->ctx, DT_ERR_CONFIG, "data.validation: %g of %lld lines leaves none",
                       s->o->validation, (long long)(c->n / each));
    }
    const size_t at = (size_t)(share * (double)c->text.used);
    int64_t i = 0;
    while (c->at[i].end < at) i++;
    *kept = i + 1;
    return dt__documents_cut(c, i, at);
}

static dt_status open_named(opening *s, dt__documents *train)
{
    const char *name = s->o->tokenizer;
    if (strcmp(name, "bytes") == 0) return dt_tokenizer_bytes(s->ctx, &s->tokenizer);
    if (strcmp(name, "chars") != 0) return dt_tokenizer_read(s->ctx, name, &s->tokenizer);
    if (train->chats) dt__put_text(&train->text, dt__chat_characters());
    if (train->chats && s->o->system != NULL) dt__put_text(&train->text, s->o->system);
    if (train->text.failed) return DT_ERR_NOMEM;
    if (train->n > 0) {
        return dt_tokenizer_chars(s->ctx, train->text.bytes, train->text.used, &s->tokenizer);
    }
    return dt_fail(s->ctx, DT_ERR_CONFIG,
                   "data.tokenizer is chars, which are those of data.train, and there is none");
}

static dt_status open_tokenizer(opening *s, dt__documents *train)
{
    const dt_tokenizer_texts own = { s->o->given, s->o->given_tokens };
    if (own.tokenizer != NULL) {
        return dt_tokenizer_of_model(s->ctx, &own, "the model's tokenizer", &s->tokenizer);
    }
    DT__TRY(open_named(s, train));
    return take_tokens(s);
}

static dt_status make_parts(opening *s, dt__documents *train, const dt__documents *test)
{
    int64_t kept = 0;
    DT__TRY(open_tokenizer(s, train));
    if (train->chats || test->chats) DT__TRY(take_form(s));
    if (train->n > 0) {
        DT__TRY(cut(s, train, &kept));
        DT__TRY(make_part(s, &(range){ train, 0, kept, TRAIN }));
        if (kept < train->n) DT__TRY(make_part(s, &(range){ train, kept, train->n, VALIDATION }));
    }
    return test->n > 0 ? make_part(s, &(range){ test, 0, test->n, TEST }) : DT_OK;
}

static dt_status open_documents(opening *s)
{
    dt__documents train = { .ctx = s->ctx }, test = { .ctx = s->ctx };
    dt_status status = dt__documents_format(&train, s->o->prompt, s->o->completion);
    if (status == DT_OK) status = dt__documents_format(&test, s->o->prompt, s->o->completion);
    if (status == DT_OK) status = read_files(s, "train", &s->o->train, &train);
    if (status == DT_OK) status = read_files(s, "test", &s->o->test, &test);
    if (status == DT_OK) status = make_parts(s, &train, &test);
    dt__documents_free(&train);
    dt__documents_free(&test);
    return status;
}

/* ---- files of ids --------------------------------------------------------------------------- */

/* Opens a file of ids; *most is the largest id. */
static dt_status map_file(const opening *s, const char *part, const char *name,
                          dt__token_store **out, int64_t *most)
{
    char *path = dt__data_path(s->ctx, s->o->dir, name);
    dt__token_store *store = *out = dt__token_store_create(s->ctx);
    if (path == NULL || store == NULL) {
        dt__release(s->ctx, path);
        return DT_ERR_NOMEM;
    }
    const int64_t vocab = s->tokenizer == NULL ? INT64_MAX : dt_tokenizer_vocab(s->tokenizer);
    dt_status status = dt_tokens_open(s->ctx, path, 0, &store->file);
    const int64_t n = status == DT_OK ? dt_tokens_count(store->file) : 0;
    *most = 0;
    for (int64_t i = 0; i < n && status == DT_OK; i++) {
        const int32_t id = dt_tokens_at(store->file, i);
        *most = dt__max_i64(*most, id);
        if (id < 0) status = dt_error_status(s->ctx);
        if (id < vocab) continue;
        status = dt_fail(s->ctx, DT_ERR_CONFIG,
                         "data.%s.0: '%s' holds id %d at place %lld, but data.tokenizer has %lld "
                         "tokens",
                         part, path, id, (long long)i, (long long)vocab);
    }
    if (status == DT_OK && n == 0) {
        status = dt_fail(s->ctx, DT_ERR_CONFIG, "data.%s.0: '%s' is empty", part, path);
    }
    dt__release(s->ctx, path);
    return status;
}

/* Opens training text, with validation text from its end, or test text. */
static dt_status open_ids(opening *s, int part, const dt_strings *names)
{
    dt__token_store *store = NULL;
    int64_t most;
    if (names->n == 0) return DT_OK;
    dt_status status = map_file(s, part_names[part], names->v[0], &store, &most);
    if (status != DT_OK) {
        dt__token_store_release(store);
        return status;
    }
    const int64_t n = dt__token_store_count(store);
    const double share = part == TRAIN ? 1 - s->o->validation : 1;
    const int64_t kept = (int64_t)(share * (double)n);
    const bool both = part == TRAIN && s->o->validation > 0;
    store->refs += both;
    status = make_running(s, part, store, 0, kept);
    if (both && status == DT_OK) status = make_running(s, VALIDATION, store, kept, n - kept);
    else if (both) dt__token_store_release(store);
    for (int i = part; i <= part + both && status == DT_OK; i++) {
        if (s->tokenizer == NULL) (*s->part[i])->classes = most + 1;
    }
    return status;
}

static dt_status open_token_files(opening *s)
{
    const dt_data_options *o = s->o;
    if (o->train.n > 1 || o->test.n > 1) {
        return dt_fail(s->ctx, DT_ERR_CONFIG, "data.%s names %d files; expected one",
                       o->train.n > 1 ? "train" : "test", o->train.n > 1 ? o->train.n : o->test.n);
    }
    if (o->tokenizer != NULL) {
        DT__TRY(dt_tokenizer_read(s->ctx, o->tokenizer, &s->tokenizer));
        DT__TRY(take_tokens(s));
    }
    DT__TRY(open_ids(s, TRAIN, &o->train));
    return open_ids(s, TEST, &o->test);
}

/* ---- both ----------------------------------------------------------------------------------- */

dt_status dt__open_text(dt_ctx *ctx, const dt_data_options *options, dt_dataset **const part[3])
{
    dt_data_options o = *options;
    if (o.tokenizer == NULL && o.format != DT_DATA_TOKENS) o.tokenizer = "bytes";
    if (o.train.n == 0 && o.test.n == 0) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.train names no file");
    }
    opening s = { .ctx = ctx, .o = &o, .part = { part[0], part[1], part[2] } };
    const dt_status status = o.format == DT_DATA_TOKENS ? open_token_files(&s) : open_documents(&s);
    dt_tokenizer_free(s.tokenizer);
    dt__release(ctx, s.found.system);
    return status;
}
