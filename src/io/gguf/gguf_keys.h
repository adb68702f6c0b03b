/* A GGUF file that is being read: its metadata and its tensors, before names are translated. */
#ifndef DT__IO_GGUF_KEYS_H
#define DT__IO_GGUF_KEYS_H

#include "core/text/json.h"
#include "data/text/tokenizer.h"
#include "io/gguf/gguf.h"

typedef struct dt__gguf_key {
    const char *name; /* in the file, `bytes` bytes without NUL */
    size_t bytes;
    uint32_t type; /* DT__GGUF_KEY_...; for an array, the type of its elements */
    bool is_array;
    uint64_t n; /* elements of an array */
    const unsigned char
        *data; /* the value, or the first element; for a string, its length comes first */
} dt__gguf_key;

typedef struct dt__gguf_raw {
    const char *name; /* a copy in the file's arena, with NUL */
    const dt__gguf_type *type;
    int rank;
    int64_t dims[4]; /* the last one varies fastest */
    int64_t count;
    size_t bytes;
    const unsigned char *data;
    bool used;
} dt__gguf_raw;

typedef struct dt__gguf_file {
    dt_ctx *ctx;
    dt_file *file;
    dt__gguf_key *key; /* sorted by name */
    dt__gguf_raw *raw; /* sorted by name */
    int64_t n_keys, n_raw;
    size_t at; /* offset of the next byte to read */
} dt__gguf_file;

/* Parses everything before the data, and checks offsets and sizes of tensors. FORMAT,
 * UNSUPPORTED. */
dt_status dt__gguf_scan(dt__gguf_file *g);

/* The metadata pair with this key; NULL: none. */
const dt__gguf_key *dt__gguf_find(const dt__gguf_file *g, const char *name);
/* The tensor with this name; NULL: none. */
dt__gguf_raw *dt__gguf_tensor_of(const dt__gguf_file *g, const char *name);
/* Value of a key; `missing` if the file lacks it. FORMAT: a wrong type or range. */
dt_status dt__gguf_int(const dt__gguf_file *g, const char *name, int64_t missing, int64_t *out);
dt_status dt__gguf_real(const dt__gguf_file *g, const char *name, double missing, double *out);
dt_status dt__gguf_bool(const dt__gguf_file *g, const char *name, bool missing, bool *out);
/* A string of *n bytes, in the file's memory; NULL if the file lacks the key. */
dt_status dt__gguf_text(const dt__gguf_file *g, const char *name, const char **out, size_t *n);
/* Whether a string of n bytes equals `word`. */
bool dt__gguf_is(const char *text, size_t n, const char *word);
/* Reads a string that was checked before; returns the position behind it. */
const unsigned char *dt__gguf_string(const unsigned char *at, const char **out, size_t *n);
dt_status dt__gguf_fail(const dt__gguf_file *g, const char *format, ...) DT_PRINTF(2, 3);

/* Returns UNSUPPORTED; the message begins with the file's path. */
dt_status dt__gguf_refuse(const dt__gguf_file *g, const char *format, ...) DT_PRINTF(2, 3);

/* Derives the model's options from keys and names of tensors (gguf_model.c). Errors: FORMAT,
 * UNSUPPORTED. */
dt_status dt__gguf_read_model(dt__gguf_file *raw, dt__gguf_model *g);
/* Derives llama3's rope scaling from rope_freqs.weight (gguf_rope.c). Errors: FORMAT,
 * UNSUPPORTED. */
dt_status dt__gguf_read_divisors(const dt__gguf_file *raw, dt__gguf_model *g,
                                 const dt__gguf_raw *t);
/* Appends family and options as JSON, in the form of the metadata detent.model. */
void dt__gguf_put_options(const dt__gguf_model *g, dt__chars *t);

/* A vocabulary of sentencepiece: arrays of equal length, strings, types as i32 (NULL: all tokens
 * are normal), scores as f32. */
typedef struct dt__gguf_pieces {
    const dt__gguf_key *tokens, *types, *scores;
} dt__gguf_pieces;
/* Writes the vocabulary as "vocab" and "merges" of a tokenizer.json (gguf_pieces.c). *fits false,
 * with nothing written: a token is too long, or a score is not a number. NOMEM. */
dt_status dt__gguf_put_pieces(dt_ctx *ctx, const dt__gguf_pieces *from, dt__chars *t, bool *fits);

/* Finds the tokens that begin, end and pad texts; `vocab`: size of the vocabulary. Errors:
 * FORMAT. */
dt_status dt__gguf_find_tokens(const dt__gguf_file *g, int64_t vocab, dt_text_tokens *out);

/* Writes the tokenizer as detent's JSON. *there false: the file has none, or one that is not
 * supported, which a warning says. Errors: FORMAT, NOMEM. */
dt_status dt__gguf_put_tokenizer(const dt__gguf_file *g, dt__chars *t, bool *there);

#endif
