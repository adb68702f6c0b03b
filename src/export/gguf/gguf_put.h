/* Parts of format gguf: the model as GGUF describes it, its metadata, its tensors. */
#ifndef DT__EXPORT_GGUF_PUT_H
#define DT__EXPORT_GGUF_PUT_H

#include "core/text/json.h"
#include "core/refusals.h"
#include "io/gguf/gguf.h"

#include <detent/experimental/export.h>

/* A tensor of the file. Extents are in our order, the last one is the fastest. */
typedef struct dt__gguf_tensor {
    const char *name;
    const dt__gguf_type *type;
    int rank;
    int64_t dims[DT_MAX_RANK];
    size_t bytes;
    unsigned char *data;
} dt__gguf_tensor;

typedef struct dt__gguf_put {
    const dt_export_call *call;
    dt_ctx *ctx;
    dt__gguf_model g;
    dt__chars keys;
    int64_t n_keys;
    dt__gguf_tensor *tensor;
    int64_t n_tensors, room;
    void *arena; /* names and data of the tensors */
    dt__refusals refused;
} dt__gguf_put;

/* ---- metadata (gguf_put_arch.c, gguf_put_keys.c, gguf_put_tokens.c) ------------------------- */

/* Fills in p->g, and adds to p->refused what no architecture of llama.cpp supports. UNSUPPORTED:
 * another family. */
dt_status dt__gguf_describe(dt__gguf_put *p);
void dt__gguf_put_keys(dt__gguf_put *p);
/* Writes the tokenizer, and adds to p->refused what llama.cpp does not support of it. */
dt_status dt__gguf_put_tokens(dt__gguf_put *p);

/* Scores of the tokens of a sentencepiece vocabulary, in new memory; NULL if llama.cpp's "llama"
 * would tokenize otherwise (gguf_put_pieces.c). NOMEM. */
dt_status dt__gguf_scores(dt_ctx *ctx, const dt_tokenizer *k, float **score);
/* Writes the keys that are special to such a vocabulary. */
void dt__gguf_put_scores(dt__gguf_put *p, const dt_tokenizer *k, const float *score);

/* Passes a note to the caller of the export. */
void dt__gguf_note(const dt__gguf_put *p, const char *line);
void dt__gguf_key_u32(dt__gguf_put *p, const char *key, uint32_t value);
void dt__gguf_key_bool(dt__gguf_put *p, const char *key, bool value);
void dt__gguf_key_text(dt__gguf_put *p, const char *key, const char *value);
/* Writes the head of an array, before its n elements. */
void dt__gguf_key_array(dt__gguf_put *p, const char *key, uint32_t type, uint64_t n);
void dt__gguf_put_string(dt__chars *t, const char *bytes, size_t n);
void dt__gguf_put_u32(dt__chars *t, uint32_t value);
void dt__gguf_put_u64(dt__chars *t, uint64_t value);
void dt__gguf_put_f32(dt__chars *t, float value);

/* ---- blocks (gguf_put_blocks.c) ------------------------------------------------------------- */

/* Writes a block of codes with a common scale that f16 can represent: 4 bits as Q4_0, 3 as Q3_K, 2
 * as Q2_K, ternary ones as TQ2_0 or TQ1_0, others as Q8_0. */
void dt__gguf_put_block(const dt__gguf_type *type, const int8_t *code, float scale,
                        unsigned char *to);

/* ---- tensors (gguf_put_tensors.c) ----------------------------------------------------------- */

/* Adds to p->refused each weight that the file cannot store with the given options. */
dt_status dt__gguf_check_tensors(dt__gguf_put *p);
/* Makes p->tensor, including the data. */
dt_status dt__gguf_make_tensors(dt__gguf_put *p);

#endif
