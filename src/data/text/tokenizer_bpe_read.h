/* Internals shared by tokenizer_bpe_read.c and tokenizer_bpe_added.c. */
#ifndef DT__DATA_TOKENIZER_BPE_READ_H
#define DT__DATA_TOKENIZER_BPE_READ_H

#include "data/text/tokenizer.h"

typedef struct entry { /* of the vocabulary, or of the added tokens */
    const char *text;
    size_t n;
    int32_t id;
    bool special, late, left, right;
} entry;

typedef struct entries {
    entry *at;
    int64_t n, room;
} entries;

typedef struct reading {
    dt__json *j;
    const dt__tokenizer_parts *parts;
    entries added, vocab; /* `added` is sorted by text */
    dt__chars bytes;      /* of the current texts, with characters decoded to bytes */
    bool pieces;          /* a sentencepiece vocabulary */
    dt_tokenizer *k;
} reading;

dt_status dt__bpe_keep(reading *r, entries *list, const entry *e);
/* Sets the bytes of token e->id; *used: bytes of all tokens so far. */
void dt__bpe_set_token(reading *r, const entry *e, const char *bytes, size_t n, size_t *used);
/* FORMAT: a token of the vocabulary has the id of e. */
dt_status dt__bpe_same_id(reading *r, const entry *e);

/* ---- added tokens (tokenizer_bpe_added.c) --------------------------------------------------- */

/* Fills r->added. */
dt_status dt__bpe_read_added(reading *r);
/* The added token with the text of e; NULL: none. */
const entry *dt__bpe_find_added(const reading *r, const entry *e);
/* Fills k->added and the added tokens; r->k already has vocabulary and normalizer. */
dt_status dt__bpe_set_added(reading *r, size_t *used);

#endif
