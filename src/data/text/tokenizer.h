/* Internals of tokenizers: the bytes of every token, how text becomes ids, and the template. */
#ifndef DT__DATA_TOKENIZER_H
#define DT__DATA_TOKENIZER_H

#include "core/text/json.h"

#include <detent/experimental/text.h>

#define DT__MOST_TOKENS ((int64_t)1 << 22) /* limits the memory that a small file can request */

/* A token: its bytes in dt_tokenizer.bytes. Ids may have gaps, with `there` false. */
typedef struct dt__token {
    uint32_t at, n;
    bool there, vocab;         /* vocab: in the vocabulary of a BPE */
    bool added, special, late; /* late: of the second class (dt__added) */
    bool left, right;          /* added: includes the white space before it, behind it */
    bool is_byte;              /* <0xNN> of a sentencepiece vocabulary: means `byte` */
    uint8_t byte;
} dt__token;

/* Text to be encoded. */
typedef struct dt__passage {
    const unsigned char *at, *end;
    bool first; /* it is at the beginning of the whole text */
} dt__passage;

/* A kind of tokenizer: how plain text becomes ids. */
typedef struct dt__tokenizer_kind {
    const char *name;
    dt_status (*encode)(const dt_tokenizer *k, const unsigned char *text, size_t bytes,
                        dt_ids *ids);
    void (*put)(const dt_tokenizer *k, dt__chars *out); /* writes the tokenizer as JSON */
} dt__tokenizer_kind;

extern const dt__tokenizer_kind dt__tokenizer_is_bytes, dt__tokenizer_is_chars,
    dt__tokenizer_is_bpe;

/* The text by which an added token is found; in the second class it is normalized. */
typedef struct dt__pattern {
    int32_t id;
    uint32_t n;
    const char *text; /* in dt__added.bytes */
} dt__pattern;

/* Added tokens of two classes: those of the second are searched in the normalized text between
 * those of the first. */
typedef struct dt__added {
    dt__pattern *at; /* sorted by class, then by bytes */
    dt__chars bytes;
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
size_t dt__split_qwen2(const unsigned char *p, const unsigned char *end);
/* The class of a character in these expressions, a bit: 1 other, 2 letter, 4 number, 8 space, 16
 * \r or \n. */
int dt__split_class(uint32_t c);
extern const dt__split dt__splits[]; /* ends with .next NULL; the first is GPT-2's */

/* ---- steps (tokenizer_steps.c, ..._steps_read.c, ..._edits.c, ..._cuts.c) -------------------- */

#define DT__MOST_STEPS 8
#define DT__STEP_TEXT 16 /* of a string in a step, with its NUL */

/* A step of a normalizer, which edits text, or of a pre_tokenizer, which splits it into pieces. The
 * kind determines which fields are used. */
typedef struct dt__step {
    const struct dt__step_kind *kind;
    const dt__split *split;                      /* of a Split by a regular expression */
    char from[DT__STEP_TEXT], to[DT__STEP_TEXT]; /* Replace; Prepend, Split and Metaspace: to */
    int choice; /* Split: DT__ISOLATED ...; Metaspace: DT__ALWAYS ... */
    bool on;    /* ByteLevel: use_regex; Digits: individual_digits; Metaspace: split */
} dt__step;

enum { DT__ISOLATED, DT__WITH_PREVIOUS, DT__WITH_NEXT };
enum { DT__ALWAYS, DT__FIRST, DT__NEVER };

typedef struct dt__step_kind {
    const char *name; /* its `type` in tokenizer.json */
    /* Reads the object; `where` is its path, for messages. */
    dt_status (*read)(dt__json *j, const char *where, dt__step *s);
    void (*put)(const dt__step *s, dt__chars *out); /* writes its fields after `type` */
    /* Appends the edited text to `out`, or sets *changed to false; NULL: the kind does not edit. */
    dt_status (*edit)(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
    /* The length of the piece at p < end; NULL: the kind does not split. */
    size_t (*next)(const dt__step *s, const unsigned char *p, const unsigned char *end);
} dt__step_kind;

/* They end with .name NULL; the first pre_tokenizer is ByteLevel. */
extern const dt__step_kind dt__normalizers[], dt__pre_tokenizers[];

dt_status dt__edit_nfc(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_nfd(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_nfkc(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_nfkd(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_prepend(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_replace(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed);
dt_status dt__edit_sign_spaces(const dt__step *s, const dt__passage *in, dt__chars *out,
                               bool *changed);
size_t dt__cut_bytes(const dt__step *s, const unsigned char *p, const unsigned char *end);
size_t dt__cut_split(const dt__step *s, const unsigned char *p, const unsigned char *end);
size_t dt__cut_digits(const dt__step *s, const unsigned char *p, const unsigned char *end);
size_t dt__cut_sign(const dt__step *s, const unsigned char *p, const unsigned char *end);

typedef struct dt__steps {
    dt__step at[DT__MOST_STEPS];
    int n;
} dt__steps;

/* Applies all edits to *t, which is then in one of room[2]; the caller frees their bytes. */
dt_status dt__steps_edit(const dt__steps *steps, dt__passage *t, dt__chars room[2]);
/* Reads a step, or a Sequence of steps, of DT__PART_NORMALIZER or DT__PART_PRE; `at` NULL: none. */
dt_status dt__steps_read(dt__json *j, const unsigned char *at, int part, dt__steps *out);
/* Writes the steps as an object, or null. */
void dt__steps_put(const dt__steps *steps, int part, dt__chars *out);
/* Positions of the elements of the list `name` in the object at `at`, at most DT__MOST_STEPS. */
dt_status dt__json_list(dt__json *j, const unsigned char *at, const char *what, const char *name,
                        const unsigned char **element, int *n);

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
    bool ignore_merges; /* a piece that is a token is not merged */
    /* A sentencepiece vocabulary: tokens are text with U+2581 for spaces, and a character without a
     * token is encoded as the tokens of its bytes; else tokens are bytes. */
    bool pieces;
    int strip; /* pieces: number of spaces at the beginning of a text that are not decoded */
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
    dt_ids before, after;  /* added by the template */
    dt_text_tokens tokens; /* the model's special tokens */
    dt__steps normalizer, pre_tokenizer;
    dt__bpe bpe;
};

/* An empty tokenizer with room for `vocab` tokens and `bytes` bytes. */
dt_status dt__tokenizer_new(dt_ctx *ctx, int64_t vocab, size_t bytes, dt_tokenizer **out);
/* Adds a reference, for dt_tokenizer_free. */
dt_tokenizer *dt__tokenizer_retain(dt_tokenizer *k);
/* A hash table for `n` entries: all slots are -1; their number is a power of two and at least 2 n;
 * *mask: that number - 1. NULL: NOMEM. */
int32_t *dt__slots(dt_ctx *ctx, int64_t n, uint32_t *mask);
/* Inserts every existing token that is `wanted`; *twice: a token whose bytes another token has, or
 * -1. */
dt_status dt__tokenizer_index(dt_tokenizer *k, int32_t *twice);
/* The plain token with these bytes; -1: none. */
int32_t dt__tokenizer_find(const dt_tokenizer *k, const char *bytes, size_t n);

/* ---- tokens of a model (model_tokens.c) ------------------------------------------------------ */

/* Adds an end token, unless it is in the list; false: the list is full. */
bool dt__text_tokens_add_end(dt_text_tokens *t, int32_t id);
void dt__text_tokens_put(dt__chars *t, const dt_text_tokens *k);
bool dt__text_tokens_none(const dt_text_tokens *t);
/* Sets a tokenizer's special tokens to those of the model that it has as added tokens. False: it
 * lacks an end token. */
bool dt__tokenizer_take_tokens(dt_tokenizer *k, const dt_text_tokens *from);

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

/* Finds the fields of an object by a table of names, which ends with NULL: at[i] is the position of
 * the value of names[i]; NULL if missing or null. FORMAT for an unknown or repeated name; `what` is
 * the object's name. */
dt_status dt__json_fields(dt__json *j, const char *what, const char *const *names,
                          const unsigned char **at);
/* The field `type` of the next object; j does not move. The text is valid until the next string is
 * read. */
dt_status dt__json_type(const dt__json *j, const char *what, const char **type);

/* An error, naming `what`, unless the field is absent or false. */
dt_status dt__must_be_false(dt__json *j, const unsigned char *at, const char *what);
/* Checks that an object has type `want`; moves j to the object. */
dt_status dt__must_be_type(dt__json *j, const unsigned char *at, const char *what,
                           const char *want);
/* Reads a boolean; `missing` if it is absent. */
dt_status dt__read_truth(dt__json *j, const unsigned char *at, bool missing, bool *out);
/* The id of the token `text`. */
dt_status dt__read_id(dt__json *j, const char *text, int32_t *out);

void dt__bpe_put(const dt_tokenizer *k, dt__chars *out);
/* Inserts every merge; *twice: a merge whose pair another merge has, or -1. */
dt_status dt__bpe_index(dt_ctx *ctx, dt__bpe *b, int64_t *twice);
dt_status dt__bpe_read(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out);
/* Reads the template from `post_processor`. */
dt_status dt__bpe_read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k);
/* For a sentencepiece vocabulary: reads k->bpe.strip from `decoder`. */
dt_status dt__bpe_read_decoder(dt__json *j, const unsigned char *at, dt_tokenizer *k);
/* For exports: the only regular expression by which a byte-level tokenizer splits text after
 * normalization; NULL: it splits in another way. */
const dt__split *dt__bpe_split(const dt_tokenizer *k);
/* Whether the only normalization is NFC. */
bool dt__normalizes_nfc(const dt_tokenizer *k);
/* How a sentencepiece tokenizer treats spaces, which become DT__SPACE_SIGN. */
enum { DT__NO_PREFIX, DT__PREFIX, DT__PREFIX_UNLESS_SPACE };
typedef struct dt__spaces {
    int prefix; /* adds a space before a text: never, always, unless it begins with one */
    bool cut;   /* each space begins a piece; otherwise a text is one piece */
} dt__spaces;
/* For exports: false if the tokenizer does more than that before merging. */
bool dt__bpe_spaces(const dt_tokenizer *k, dt__spaces *out);
#define DT__SPACE_SIGN "\xe2\x96\x81" /* U+2581, sentencepiece's sign for a space */

/* The alphabet of byte-level BPE: one character per byte. */
uint32_t dt__byte_char(int byte);
int dt__char_byte(uint32_t c); /* -1: none */

/* Whether the bytes p ... end - 1 begin with `text`. */
bool dt__text_begins(const unsigned char *p, const unsigned char *end, const char *text);

#endif
