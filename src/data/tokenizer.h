/* A tokenizer inside: the bytes of every token, how text becomes ids, and what is added to that. */
#ifndef DT__DATA_TOKENIZER_H
#define DT__DATA_TOKENIZER_H

#include "core/json.h"

#include <detent/text.h>

#define DT__MOST_TOKENS ((int64_t)1 << 22) /* so that a short file cannot ask for much memory */

/* A token: its bytes in dt_tokenizer.bytes. Ids need not be dense; `there` is false between
 * them. */
typedef struct dt__token {
    uint32_t at, n;
    bool there, vocab;         /* vocab: in the vocabulary of a BPE */
    bool added, special, late; /* late: of the second class */
} dt__token;

/* How plain text becomes ids. */
typedef struct dt__tokenizer_kind {
    const char *name;
    dt_status (*encode)(const dt_tokenizer *k, const unsigned char *text, size_t bytes,
                        dt_ids *ids);
    void (*put)(const dt_tokenizer *k, dt__chars *out); /* the tokenizer as JSON */
} dt__tokenizer_kind;

extern const dt__tokenizer_kind dt__tokenizer_is_bytes, dt__tokenizer_is_chars,
    dt__tokenizer_is_bpe;

/* Added tokens of two classes: those of the second are looked for between those of the first. */
typedef struct dt__added {
    int32_t *id;      /* sorted by class, then by bytes */
    int64_t first[3]; /* where each class begins, and the end */
} dt__added;

/* How text is cut. `next` gives the bytes of the piece that begins at `p`, which is not `end`. */
typedef struct dt__split {
    const char *regex; /* as files write it */
    size_t (*next)(const unsigned char *p, const unsigned char *end);
} dt__split;
size_t dt__split_gpt2(const unsigned char *p, const unsigned char *end);
size_t dt__split_llama3(const unsigned char *p, const unsigned char *end);
extern const dt__split dt__splits[]; /* ends with .next NULL; the first is GPT-2's */

/* Two neighbours that become one; of smaller index, earlier. */
typedef struct dt__merge {
    int32_t left, right, result;
} dt__merge;

typedef struct dt__bpe {
    int32_t byte[256]; /* the token of each byte */
    dt__merge *merge;
    int64_t merges;
    int32_t *slot; /* hash of pairs: index of the merge, or -1 */
    uint32_t mask;
    bool ignore_merges; /* a piece that is a token is that token, whatever merges make of it */
    const dt__split *split;
} dt__bpe;

struct dt_tokenizer {
    dt_ctx *ctx;
    atomic_int refs;
    const dt__tokenizer_kind *kind;
    int64_t vocab;
    dt__token *token; /* [vocab] */
    char *bytes;
    int32_t *slot; /* hash of bytes: ids of the tokens of plain text, or -1 */
    uint32_t mask;
    dt__added added;
    dt_ids before, after; /* of the template */
    dt__bpe bpe;
};

/* An empty one, of `vocab` tokens that are not there and `bytes` bytes. */
dt_status dt__tokenizer_new(dt_ctx *ctx, int64_t vocab, size_t bytes, dt_tokenizer **out);
/* Another owner, for dt_tokenizer_free. */
dt_tokenizer *dt__tokenizer_retain(dt_tokenizer *k);
/* A hash for `n` entries: its slots, all -1, twice as many at least, a power of two; *mask is one
 * less. NULL: NOMEM. */
int32_t *dt__slots(dt_ctx *ctx, int64_t n, uint32_t *mask);
/* Enters every token that is there and `wanted`; *twice is one whose bytes another has, or -1. */
dt_status dt__tokenizer_index(dt_tokenizer *k, int32_t *twice);
/* The token of plain text that has these bytes; -1: none. */
int32_t dt__tokenizer_find(const dt_tokenizer *k, const char *bytes, size_t n);

/* ---- reading ------------------------------------------------------------------------------- */

/* Where the parts of a tokenizer.json stand: values of any kind, well formed; NULL where one is
 * missing or null. */
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

/* Members of an object by a table of names, which ends with NULL: at[i] is where the value of
 * names[i] stands; NULL where it is missing or null. FORMAT where one is unknown or stands twice;
 * `what` is the object's name. */
dt_status dt__json_fields(dt__json *j, const char *what, const char *const *names,
                          const unsigned char **at);
/* The member `type` of the object that comes next; j stays where it is. The text lives until the
 * next string is read. */
dt_status dt__json_type(const dt__json *j, const char *what, const char **type);

/* Members with one right value, or none: an error names `what`. */
dt_status dt__must_be_false(dt__json *j, const unsigned char *at, const char *what);
/* An object whose type is `want`, at which j then stands. */
dt_status dt__must_be_type(dt__json *j, const unsigned char *at, const char *what,
                           const char *want);
/* A boolean; `missing` where there is none. */
dt_status dt__read_truth(dt__json *j, const unsigned char *at, bool missing, bool *out);
/* The id of the token `text`. */
dt_status dt__read_id(dt__json *j, const char *text, int32_t *out);

void dt__bpe_put(const dt_tokenizer *k, dt__chars *out);
/* Enters every merge; *twice is one whose pair another has, or -1. */
dt_status dt__bpe_index(dt_ctx *ctx, dt__bpe *b, int64_t *twice);
dt_status dt__bpe_read(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out);
/* k's split, from `pre_tokenizer`; what stands around a text, from `post_processor`. */
dt_status dt__bpe_read_split(dt__json *j, const unsigned char *at, dt_tokenizer *k);
dt_status dt__bpe_read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k);

/* The alphabet of byte-level BPE: a character for each byte. */
uint32_t dt__byte_char(int byte);
int dt__char_byte(uint32_t c); /* -1: none */

#endif
