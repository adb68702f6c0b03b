/* Internals of tokenizers: the bytes of every token, how text becomes ids, and the template. */
#ifndef DT__DATA_TOKENIZER_H
#define DT__DATA_TOKENIZER_H

#include "core/json.h"

#include <detent/text.h>

#define DT__MOST_TOKENS ((int64_t)1 << 22) /* limits the memory that a short file can demand */

/* A token: its bytes in dt_tokenizer.bytes. Ids may have gaps; there `there` is false. */
typedef struct dt__token {
    uint32_t at, n;
    bool there, vocab;         /* vocab: in the vocabulary of a BPE */
    bool added, special, late; /* late: of the second class */
} dt__token;

/* A kind of tokenizer: how plain text becomes ids. */
typedef struct dt__tokenizer_kind {
    const char *name;
    dt_status (*encode)(const dt_tokenizer *k, const unsigned char *text, size_t bytes,
                        dt_ids *ids);
    void (*put)(const dt_tokenizer *k, dt__chars *out); /* writes the tokenizer as JSON */
} dt__tokenizer_kind;

extern const dt__tokenizer_kind dt__tokenizer_is_bytes, dt__tokenizer_is_chars,
    dt__tokenizer_is_bpe;

/* Added tokens of two classes: those of the second are searched in the text between those of the
 * first. */
typedef struct dt__added {
    int32_t *id;      /* sorted by class, then by bytes */
    int64_t first[3]; /* index of the first of each class, and the end */
} dt__added;

/* A splitter of text into pieces. `next` returns the length in bytes of the piece that begins at
 * `p` < `end`. */
typedef struct dt__split {
    const char *regex; /* as tokenizer files write it */
    size_t (*next)(const unsigned char *p, const unsigned char *end);
    int digits; /* most digits of a piece of Llama 3 and Qwen2; 0: GPT-2 */
} dt__split;
size_t dt__split_gpt2(const unsigned char *p, const unsigned char *end);
size_t dt__split_llama3(const unsigned char *p, const unsigned char *end);
size_t dt__split_qwen2(const unsigned char *p, const unsigned char *end);
/* The class of a character in these expressions, a bit: 1 other, 2 letter, 4 number, 8 space, 16
 * \r or \n. */
int dt__split_class(uint32_t c);
extern const dt__split dt__splits[]; /* ends with .next NULL; the first is GPT-2's */

/* A merge of two neighbouring tokens into one; smaller indices are applied first. */
typedef struct dt__merge {
    int32_t left, right, result;
} dt__merge;

typedef struct dt__bpe {
    int32_t byte[256]; /* the token of each byte */
    dt__merge *merge;
    int64_t merges;
    int32_t *slot; /* hash of pairs: index of the merge, or -1 */
    uint32_t mask;
    bool ignore_merges; /* a piece that is a token becomes that token without merges */
    const dt__split *split;
} dt__bpe;

struct dt_tokenizer {
    dt_ctx *ctx;
    atomic_int refs;
    const dt__tokenizer_kind *kind;
    int64_t vocab;
    dt__token *token; /* [vocab] */
    char *bytes;
    int32_t *slot; /* hash of the bytes of plain tokens: their ids, or -1 */
    uint32_t mask;
    dt__added added;
    dt_ids before, after; /* tokens of the template */
    dt__bpe bpe;
};

/* An empty tokenizer with room for `vocab` tokens and `bytes` bytes. */
dt_status dt__tokenizer_new(dt_ctx *ctx, int64_t vocab, size_t bytes, dt_tokenizer **out);
/* Adds a reference, for dt_tokenizer_free. */
dt_tokenizer *dt__tokenizer_retain(dt_tokenizer *k);
/* A hash table for `n` entries: slots of -1, a power of two and at least 2 n; *mask is their number
 * - 1. NULL: NOMEM. */
int32_t *dt__slots(dt_ctx *ctx, int64_t n, uint32_t *mask);
/* Inserts every existing token that is `wanted`; *twice is one whose bytes another has, or -1. */
dt_status dt__tokenizer_index(dt_tokenizer *k, int32_t *twice);
/* The plain token with these bytes; -1: none. */
int32_t dt__tokenizer_find(const dt_tokenizer *k, const char *bytes, size_t n);

/* ---- reading ------------------------------------------------------------------------------- */

/* The parts of a tokenizer.json: positions of their well-formed values; NULL if missing or null. */
enum {
    DT__PART_VERSION,
    DT__PART_TRUNCATION,
    DT__PART_PADDING,
    DT__PART_ADDED,
    DT__PART_NORMALIZER,
    DT__PART_PRE,
    DT__PART_POST,
    DT__PART_DECODER,
    DT__PART_MODEL,
    DT__PART_COUNT
};
typedef struct dt__tokenizer_parts {
    const unsigned char *at[DT__PART_COUNT];
} dt__tokenizer_parts;
extern const char *const dt__tokenizer_part[]; /* their names */

/* Reads the fields of an object by a table of names, which ends with NULL: at[i] is the position of
 * the value of names[i]; NULL if missing or null. FORMAT for an unknown or repeated name; `what` is
 * the object's name. */
dt_status dt__json_fields(dt__json *j, const char *what, const char *const *names,
                          const unsigned char **at);
/* The field `type` of the next object, which is not skipped. The text is valid until the next
 * string is read. */
dt_status dt__json_type(const dt__json *j, const char *what, const char **type);

/* Fields that must be absent or have one given value: an error names `what`. */
dt_status dt__must_be_false(dt__json *j, const unsigned char *at, const char *what);
/* Checks that the type of an object is `want`; j is then at the object. */
dt_status dt__must_be_type(dt__json *j, const unsigned char *at, const char *what,
                           const char *want);
/* A boolean; `missing` if it is absent. */
dt_status dt__read_truth(dt__json *j, const unsigned char *at, bool missing, bool *out);
/* The id of the token `text`. */
dt_status dt__read_id(dt__json *j, const char *text, int32_t *out);

void dt__bpe_put(const dt_tokenizer *k, dt__chars *out);
/* Inserts every merge; *twice is one whose pair another has, or -1. */
dt_status dt__bpe_index(dt_ctx *ctx, dt__bpe *b, int64_t *twice);
dt_status dt__bpe_read(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out);
/* k's split, from `pre_tokenizer`; the template, from `post_processor`. */
dt_status dt__bpe_read_split(dt__json *j, const unsigned char *at, dt_tokenizer *k);
dt_status dt__bpe_read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k);

/* The alphabet of byte-level BPE: one character per byte. */
uint32_t dt__byte_char(int byte);
int dt__char_byte(uint32_t c); /* -1: none */

#endif
