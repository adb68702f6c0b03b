/* Format c: NAME_text.h and NAME_text.c of a language model: its tokenizer, sampling like
 * dt_sample, and a program that continues a text. */
#include "export/c/c_write.h"

#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* ---- NAME_text.h ----------------------------------------------------------------------------- */

static const char header[] = "/* Text of the tokens of @, and sampling. */\n#ifndef $_TEXT_H\n"
                             "#define $_TEXT_H\n\n#include \"@.h\"\n\n"
                             "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";

static const char declarations[] =
    "/* The tokens of a text, at most `most`. Returns how many; or -1 where there is no room for\n "
    "* them (of each piece as many as bytes), or a character is not a token. */\nint32_t "
    "@_encode(const char *text, int32_t bytes, int32_t *tokens, int32_t most);\n\n/* The bytes of "
    "a token, which need not be whole characters, and *bytes: how many. Special\n * tokens have "
    "none. */\nconst char *@_decode(int32_t token, int32_t *bytes);\n\ntypedef struct @_sampling "
    "{\n    double temperature; /* 0: always the likeliest token */\n    double top_p;       /* of "
    "the fewest tokens with this share of the probability; 1: all */\n    int32_t top_k;      /* "
    "of the likeliest ones; 0: all */\n    uint64_t seed;\n} @_sampling;\n\n/* Draws a token by "
    "the logits, with random number `draw` of the seed, as `detent sample`\n * does. room: $_VOCAB "
    "integers. */\nint32_t @_sample(const float *logits, const @_sampling *how, uint64_t draw,\n   "
    "              int32_t *room);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n";

/* Writes the token that ends texts, and a test for all such tokens. */
static void put_ends(const dt__c_about *a, dt__chars *to)
{
    const dt_text_tokens t = dt_tokenizer_tokens(a->tokenizer);
    const int32_t end = dt_tokenizer_end(a->tokenizer);
    dt__c_printf(to, "#define %s_END %d /* the token that ends a text; -1: none */\n", a->upper,
                 end);
    dt__c_printf(to, "#define %s_IS_END(token) ((token) == %d", a->upper, end);
    for (int i = 1; i < t.n_end; i++) {
        dt__c_printf(to, "%s(token) == %d", i % 4 == 0 ? " || \\\n    " : " || ", t.end[i]);
    }
    dt__put_text(to, ")\n\n");
}

void dt__c_put_text_header(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_named(a, to, header);
    put_ends(a, to);
    dt__c_put_named(a, to, declarations);
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef int64_t number_at(const void *from, int64_t i);

static void put_table(dt__chars *to, const char *declaration, const void *from, int64_t n,
                      number_at *at)
{
    dt__c_printf(to, "static const %s[%lld] = {", declaration, (long long)dt__max_i64(1, n));
    for (int64_t i = 0; i < dt__max_i64(1, n); i++) {
        dt__c_printf(to, "%s%lld,", i % 12 == 0 ? "\n    " : " ",
                     i < n ? (long long)at(from, i) : 0LL);
    }
    dt__put_text(to, "\n};\n");
}

static int64_t byte_at(const void *from, int64_t i) { return ((const uint8_t *)from)[i]; }
static int64_t integer_at(const void *from, int64_t i) { return ((const int32_t *)from)[i]; }
static int64_t word_at(const void *from, int64_t i) { return ((const uint32_t *)from)[i]; }

/* A token of the vocabulary, for sorting. */
typedef struct plain {
    const char *bytes;
    uint32_t n;
    int32_t id;
} plain;

static int by_bytes(const void *a, const void *b)
{
    const plain *p = a, *q = b;
    const uint32_t n = p->n < q->n ? p->n : q->n;
    const int order = memcmp(p->bytes, q->bytes, n);
    return order != 0 ? order : (p->n > q->n) - (p->n < q->n);
}

/* Appends the decoded bytes of a token; of sentencepiece a byte, or text with spaces. */
static void put_decoded(const dt_tokenizer *k, const dt__token *t, dt__chars *to)
{
    const size_t sign = strlen(DT__SPACE_SIGN);
    const char *const at = k->bytes + t->at;
    if (!t->there || t->special) return;
    if (!k->bpe.pieces || t->is_byte) {
        dt__put(to, t->is_byte ? (const char *)&t->byte : at, t->is_byte ? 1 : t->n);
        return;
    }
    for (size_t i = 0; i < t->n;) {
        const bool is_sign = t->n - i >= sign && memcmp(at + i, DT__SPACE_SIGN, sign) == 0;
        dt__put(to, is_sign ? " " : at + i, 1);
        i += is_sign ? sign : 1;
    }
}

/* Whether a token is in the sorted list in which text is looked up: whole pieces, or single
 * characters. */
static bool looks_up(const dt_tokenizer *k, int32_t id)
{
    const dt__token *t = &k->token[id];
    const unsigned char *p = (const unsigned char *)k->bytes + t->at;
    if (!t->there) return false;
    if (k->bpe.pieces) {
        return t->n > 0 && *p != ' ' && dt__utf8_length(p, p + t->n) == (int)t->n &&
               dt__tokenizer_find(k, (const char *)p, t->n) == id;
    }
    return !t->added && (k->kind == &dt__tokenizer_is_chars ||
                         (k->kind == &dt__tokenizer_is_bpe && k->bpe.ignore_merges));
}

/* A token's bytes in that list; sentencepiece's sign for a space is a space. */
static plain plain_of(const dt_tokenizer *k, int32_t id)
{
    const dt__token *t = &k->token[id];
    const char *at = k->bytes + t->at;
    const bool is_sign =
        k->bpe.pieces && t->n == strlen(DT__SPACE_SIGN) && memcmp(at, DT__SPACE_SIGN, t->n) == 0;
    return is_sign ? (plain){ " ", 1, id } : (plain){ at, t->n, id };
}

static dt_status put_sorted(const dt_tokenizer *k, dt__chars *to)
{
    int64_t n = 0;
    plain *sorted = dt__alloc_array(to->ctx, k->vocab, sizeof *sorted);
    int32_t *id = dt__alloc_array(to->ctx, k->vocab, sizeof *id);
    for (int32_t i = 0; i < k->vocab && sorted != NULL; i++) {
        if (looks_up(k, i)) sorted[n++] = plain_of(k, i);
    }
    if (n > 0) qsort(sorted, (size_t)n, sizeof *sorted, by_bytes);
    for (int64_t i = 0; i < n && id != NULL; i++) id[i] = sorted[i].id;
    const bool made = sorted != NULL && id != NULL;
    if (made) put_table(to, "int32_t sorted", id, n, integer_at);
    dt__c_printf(to,
                 "static const text_tokens tokens = { token_bytes, token_start, sorted, %lld };\n",
                 (long long)n);
    DT__RELEASE(to->ctx, sorted, id);
    return made ? DT_OK : DT_ERR_NOMEM;
}

/* Writes the bytes of all tokens, one after the other, and where each begins. */
static dt_status put_tokens(const dt_tokenizer *k, dt__chars *to)
{
    dt__chars bytes = { .ctx = to->ctx };
    uint32_t *start = dt__alloc_array(to->ctx, k->vocab + 1, sizeof *start);
    if (start == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i <= k->vocab; i++) {
        start[i] = (uint32_t)bytes.used;
        if (i < k->vocab) put_decoded(k, &k->token[i], &bytes);
    }
    const bool made = !bytes.failed;
    if (made) put_table(to, "uint8_t token_bytes", bytes.bytes, (int64_t)bytes.used, byte_at);
    if (made) put_table(to, "uint32_t token_start", start, k->vocab + 1, word_at);
    DT__RELEASE(to->ctx, bytes.bytes, start);
    return made ? put_sorted(k, to) : DT_ERR_NOMEM;
}

/* ---- byte pair encoding ---------------------------------------------------------------------- */

/* A merge, for sorting by its pair. */
typedef struct ranked {
    dt__merge merge;
    int32_t rank;
} ranked;

static int by_pair(const void *a, const void *b)
{
    const dt__merge *p = &((const ranked *)a)->merge, *q = &((const ranked *)b)->merge;
    if (p->left != q->left) return p->left < q->left ? -1 : 1;
    return (p->right > q->right) - (p->right < q->right);
}

static int64_t left_at(const void *from, int64_t i) { return ((const ranked *)from)[i].merge.left; }
static int64_t right_at(const void *from, int64_t i)
{
    return ((const ranked *)from)[i].merge.right;
}
static int64_t result_at(const void *from, int64_t i)
{
    return ((const ranked *)from)[i].merge.result;
}
static int64_t rank_at(const void *from, int64_t i) { return ((const ranked *)from)[i].rank; }

/* Writes classes of characters above ASCII: for each run of one class the first character * 32 +
 * class. */
static int64_t put_classes(dt__chars *to)
{
    int64_t n = 0;
    int before = -1;
    dt__put_text(to, "static const uint32_t ranges[] = {");
    for (uint32_t c = 128; c < 0x110000; c++) {
        const int kind = dt__split_class(c);
        if (kind == before) continue;
        dt__c_printf(to, "%s%u,", n % 12 == 0 ? "\n    " : " ", c * 32 + (uint32_t)kind);
        before = kind;
        n++;
    }
    dt__put_text(to, "\n};\n");
    return n;
}

static dt_status put_bpe(const dt_tokenizer *k, dt__chars *to)
{
    const dt__bpe *b = &k->bpe;
    ranked *merge = dt__alloc_array(to->ctx, b->merges + 1, sizeof *merge);
    if (merge == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < b->merges; i++) merge[i] = (ranked){ b->merge[i], (int32_t)i };
    if (b->merges > 0) qsort(merge, (size_t)b->merges, sizeof *merge, by_pair);
    put_table(to, "int32_t byte_token", b->byte, 256, integer_at);
    put_table(to, "int32_t merge_left", merge, b->merges, left_at);
    put_table(to, "int32_t merge_right", merge, b->merges, right_at);
    put_table(to, "int32_t merge_result", merge, b->merges, result_at);
    put_table(to, "int32_t merge_rank", merge, b->merges, rank_at);
    dt__release(to->ctx, merge);
    const int64_t n = b->pieces ? 0 : put_classes(to);
    dt__c_printf(
        to,
        "static const text_bpe bpe = { byte_token, merge_left, merge_right, merge_result,\n"
        "                              merge_rank, %s, %lld, %lld, %d, %d };\n",
        b->pieces ? "0" : "ranges", (long long)b->merges, (long long)n, b->ignore_merges,
        b->pieces ? 0 : dt__bpe_split(k)->digits);
    return DT_OK;
}

static dt_status put_pieces(const dt_tokenizer *k, dt__chars *to)
{
    dt__spaces spaces;
    dt__bpe_spaces(k, &spaces);
    dt__c_printf(to, "#define TEXT_PREFIX %d\n#define TEXT_CUT %d\n", spaces.prefix, spaces.cut);
    return put_bpe(k, to);
}

/* ---- NAME_text.c ----------------------------------------------------------------------------- */

/* Texts for each kind of tokenizer. */
static const struct {
    const dt__tokenizer_kind *kind;
    bool pieces;
    const char *text; /* the function that encodes; NULL: none */
    const char *call;
    dt_status (*put)(const dt_tokenizer *k, dt__chars *to);
} kinds[] = {
    { &dt__tokenizer_is_bytes, false, NULL,
      "    int32_t i;\n    if (most < bytes) return -1;\n"
      "    for (i = 0; i < bytes; i++) ids[i] = (uint8_t)text[i];\n    return bytes;\n",
      NULL },
    { &dt__tokenizer_is_chars, false, "text_encode_characters",
      "    return text_encode_characters(&tokens, (const uint8_t *)text, bytes, ids, most);\n",
      NULL },
    { &dt__tokenizer_is_bpe, false, "text_encode_bpe",
      "    return text_encode_bpe(&bpe, &tokens, (const uint8_t *)text, bytes, ids, most);\n",
      put_bpe },
    { &dt__tokenizer_is_bpe, true, "text_encode_pieces",
      "    return text_encode_pieces(&bpe, &tokens, TEXT_PREFIX, TEXT_CUT, (const uint8_t *)text,\n"
      "                              bytes, ids, most);\n",
      put_pieces },
};

static int kind_of(const dt_tokenizer *k)
{
    int i = 0;
    while (kinds[i].kind != k->kind || kinds[i].pieces != k->bpe.pieces) i++;
    return i;
}

static void put_texts(const dt_tokenizer *k, dt__chars *to)
{
    bool *wanted = dt__alloc_zero(to->ctx, (size_t)dt__c_texts_n);
    if (wanted == NULL) {
        to->failed = true;
        return;
    }
    dt__c_text_want(wanted, dt__c_text_named("text_sample"));
    dt__c_text_want(wanted, dt__c_text_named("text_draw"));
    dt__c_text_want(wanted, dt__c_text_named("text_tokens"));
    if (kinds[kind_of(k)].text != NULL) {
        dt__c_text_want(wanted, dt__c_text_named(kinds[kind_of(k)].text));
    }
    for (int i = 0; i < dt__c_texts_n; i++) {
        if (i == 0 || wanted[i]) {
            DT__PUT_ALL(to, dt__c_texts[i].text, "\n");
        }
    }
    dt__release(to->ctx, wanted);
}

static const char title[] =
    "/* The tokenizer of @, and sampling. With -D$_MAIN it is a program:\n"
    " *     cc -O2 -D$_MAIN @.c @_text.c -o @ && ./@ \"a text\" 200 0.8 1 */\n"
    "#include \"@_text.h\"\n\n";

static const char functions[] =
    "const char *@_decode(int32_t token, int32_t *n)\n{\n"
    "    *n = 0;\n    if (token < 0 || token >= n_tokens) return \"\";\n"
    "    *n = (int32_t)(tokens.start[token + 1] - tokens.start[token]);\n"
    "    return (const char *)tokens.bytes + tokens.start[token];\n}\n\n"
    "int32_t @_sample(const float *logits, const @_sampling *how, uint64_t draw,\n"
    "                 int32_t *room)\n{\n"
    "    return text_sample(logits, $_VOCAB, how->temperature, how->top_k, how->top_p,\n"
    "                       text_draw(how->seed, draw), room);\n}\n";

/* The program. A prompt begins as one token per character or byte, before merging. */
static const char program[] =
    "/* Continues a text: PROMPT [TOKENS [TEMPERATURE [SEED]]]. */\nstatic uint8_t "
    "memory[$_STATE_BYTES + $_STATE_ALIGN];\nstatic float logits[$_VOCAB];\nstatic int32_t "
    "prompt[N_BEFORE + N_PROMPT + N_AFTER], room[$_VOCAB];\n\nint main(int argc, char **argv)\n{\n "
    "   const char *text = argc > 1 ? argv[1] : \"\\n\", *made;\n    const long most = argc > 2 ? "
    "atol(argv[2]) : 200;\n    @_sampling how = { 0.8, 1.0, 0, 0 };\n    int32_t n = "
    "@_encode(text, (int32_t)strlen(text), prompt + N_BEFORE, N_PROMPT);\n    int32_t i, token, "
    "bytes;\n    uint8_t *state = memory;\n    while ((uintptr_t)state % $_STATE_ALIGN != 0) "
    "state++;\n    if (argc > 3) how.temperature = atof(argv[3]);\n    if (argc > 4) how.seed = "
    "(uint64_t)atol(argv[4]);\n    for (i = 0; i < N_BEFORE; i++) prompt[i] = before[i];\n    for "
    "(i = 0; i < N_AFTER && n >= 0; i++) prompt[N_BEFORE + n + i] = after[i];\n    if (n >= 0) n "
    "+= N_BEFORE + N_AFTER;\n    if (n < 1 || n > $_CONTEXT) {\n        fprintf(stderr, \"the "
    "prompt is empty, too long, or has characters that are not \"\n                        "
    "\"tokens\\n\");\n        return 1;\n    }\n    @_reset(state);\n    for (i = 0; i < n; i++) "
    "{\n        if (@_next(state, prompt[i], i + 1 < n ? 0 : logits) != 0) return 1;\n    }\n    "
    "fputs(text, stdout);\n    for (i = 0; i < most; i++) {\n        token = @_sample(logits, "
    "&how, (uint64_t)i, room);\n        if ($_IS_END(token)) break;\n        made = "
    "@_decode(token, &bytes);\n        fwrite(made, 1, (size_t)bytes, stdout);\n        if "
    "(@_next(state, token, logits) != 0) break; /* the context is full */\n    }\n    "
    "fputs(\"\\n\", stdout);\n    return 0;\n}\n#endif\n";

/* Writes constants of the template for the program, and memory for a prompt with as many bytes as
 * the context's tokens may have. */
static void put_program(const dt__c_about *a, dt__chars *to)
{
    const dt_tokenizer *k = a->tokenizer;
    const bool merges = k->kind == &dt__tokenizer_is_bpe;
    dt__c_put_named(a, to, "\n#ifdef $_MAIN\n#include <stdio.h>\n#include <stdlib.h>\n\n");
    dt__c_printf(to, "enum { N_BEFORE = %lld, N_AFTER = %lld, N_PROMPT = %d * %s_CONTEXT };\n",
                 (long long)k->before.n, (long long)k->after.n, merges ? 16 : 1, a->upper);
    put_table(to, "int32_t before", k->before.id, k->before.n, integer_at);
    put_table(to, "int32_t after", k->after.id, k->after.n, integer_at);
    dt__c_put_named(a, to, program);
}

void dt__c_put_text_source(const dt__c_about *a, dt__chars *to)
{
    const dt_tokenizer *k = a->tokenizer;
    const int kind = kind_of(k);
    dt__c_put_named(a, to, title);
    put_texts(k, to);
    dt_status s = put_tokens(k, to);
    if (s == DT_OK && kinds[kind].put != NULL) s = kinds[kind].put(k, to);
    if (s != DT_OK) to->failed = true;
    dt__c_printf(to, "static const int32_t n_tokens = %lld;\n\n", (long long)k->vocab);
    dt__c_put_named(a, to,
                    "int32_t @_encode(const char *text, int32_t bytes, int32_t *ids, "
                    "int32_t most)\n{\n");
    dt__put_text(to, kinds[kind].call);
    dt__put_text(to, "}\n\n");
    dt__c_put_named(a, to, functions);
    put_program(a, to);
}
