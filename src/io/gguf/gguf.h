/* GGUF, the files of llama.cpp [ggml, docs/gguf.md]: types of tensors, names, and the models that
 * such files and detent both have. */
#ifndef DT__IO_GGUF_H
#define DT__IO_GGUF_H

#include "io/safetensors/safetensors.h"

#define DT__GGUF_MAGIC "GGUF"
#define DT__GGUF_ALIGNMENT 32
#define DT__GGUF_BLOCK 32       /* elements of a block of Q4_0 and Q8_0 */
#define DT__GGUF_LONG_BLOCK 256 /* likewise of Q2_K, Q3_K, TQ1_0 and TQ2_0 */
#define DT__GGUF_Q2_BLOCK 64    /* of Q2_0 */
#define DT__GGUF_Q1_BLOCK 128   /* of Q1_0 */

/* ---- types ---------------------------------------------------------------------------------- */

enum {
    DT__GGUF_F32 = 0,
    DT__GGUF_F16 = 1,
    DT__GGUF_Q4_0 = 2,
    DT__GGUF_Q8_0 = 8,
    DT__GGUF_Q2_K = 10,
    DT__GGUF_Q3_K = 11,
    DT__GGUF_TQ1_0 = 34,
    DT__GGUF_TQ2_0 = 35,
    DT__GGUF_MXFP4 = 39,
    DT__GGUF_Q1_0 = 41,
    DT__GGUF_Q2_0 = 42
};

/* A type of tensors: `elements` of a row share a block of `bytes`. */
typedef struct dt__gguf_type {
    uint32_t id;
    const char *name;
    int elements, bytes;
} dt__gguf_type;

/* The type of this number; NULL: another one. */
const dt__gguf_type *dt__gguf_type_of(uint32_t id);

/* The values of one block (gguf_values.c). */
void dt__gguf_q8_0(const unsigned char *from, float *x);
void dt__gguf_q4_0(const unsigned char *from, float *x);
void dt__gguf_q2_k(const unsigned char *from, float *x);
void dt__gguf_q3_k(const unsigned char *from, float *x);
void dt__gguf_tq1_0(const unsigned char *from, float *x);
void dt__gguf_tq2_0(const unsigned char *from, float *x);
void dt__gguf_mxfp4(const unsigned char *from, float *x);
void dt__gguf_q1_0(const unsigned char *from, float *x);
void dt__gguf_q2_0(const unsigned char *from, float *x);

/* The place of element e (0 ... 255) of a block of TQ1_0: a byte, and which of its digits. */
void dt__gguf_digit(int e, int *byte, int *digit);

/* Types of metadata values. */
enum {
    DT__GGUF_KEY_U8,
    DT__GGUF_KEY_I8,
    DT__GGUF_KEY_U16,
    DT__GGUF_KEY_I16,
    DT__GGUF_KEY_U32,
    DT__GGUF_KEY_I32,
    DT__GGUF_KEY_F32,
    DT__GGUF_KEY_BOOL,
    DT__GGUF_KEY_STRING,
    DT__GGUF_KEY_ARRAY,
    DT__GGUF_KEY_U64,
    DT__GGUF_KEY_I64,
    DT__GGUF_KEY_F64,
    DT__GGUF_KEYS
};

/* Types of tokens in tokenizer.ggml.token_type. */
enum {
    DT__GGUF_NORMAL = 1,
    DT__GGUF_UNKNOWN = 2,
    DT__GGUF_CONTROL = 3,
    DT__GGUF_USER = 4,
    DT__GGUF_UNUSED = 5,
    DT__GGUF_BYTE = 6
};

/* ---- models --------------------------------------------------------------------------------- */

/* An architecture of llama.cpp. */
typedef struct dt__gguf_arch {
    const char *name;
    bool is_gpt;
    bool pairs; /* rows of q and k are in the order of rotated pairs, not halves */
} dt__gguf_arch;

/* The architecture of this name, of n bytes; NULL: none that is known here. */
const dt__gguf_arch *dt__gguf_arch_named(const char *name, size_t n);
#define DT__GGUF_ARCHS "llama, qwen2, qwen3, olmo2, smollm3, gemma3, gpt2 and gptneox"

#define DT__GGUF_UNROTATED 4  /* every n-th block of smollm3 */
#define DT__GGUF_FULL_EVERY 6 /* of gemma3, where the file does not say it */
#define DT__GGUF_GEMMA_27B 62 /* blocks of the gemma3 with another scale of scores */
/* The tensors of longrope. */
#define DT__GGUF_LONG_FACTORS "rope_factors_long.weight"
#define DT__GGUF_SHORT_FACTORS "rope_factors_short.weight"
#define DT__GGUF_GELU "detent.gelu_erf" /* of gptneox: gelu itself; absent: true */

/* What both sides know of a model of family llama or gpt. */
typedef struct dt__gguf_model {
    const dt__gguf_arch *arch;
    dt_llama_options o; /* of gpt what both have. moe.experts 0: none; the extents that follow from
                         * others are there; the block is that of olmo2, smollm3 and gemma3 */
    int64_t rotated;    /* of gptneox: rotated elements of a head; 0: positions are learned */
    bool parallel, gelu_erf;
    bool biased; /* of family gpt, read: attention and mlps have biases */
} dt__gguf_model;

/* Whose heads the rows of a tensor belong to, where they are in the order of pairs. */
enum { DT__GGUF_NO_HEADS, DT__GGUF_Q_HEADS, DT__GGUF_K_HEADS };
typedef struct dt__gguf_name {
    const char *theirs;  /* in a block behind "blk.N." */
    const char *ours[3]; /* of several: their rows, one after the other */
    unsigned when;       /* which models have it (gguf_names.c) */
    int heads;
} dt__gguf_name;

/* The tensors of a family, ended by theirs NULL. */
typedef struct dt__gguf_names {
    const dt__gguf_name *whole, *block;
    const char *blocks; /* the path of blocks in the model, with a dot behind it */
} dt__gguf_names;

const dt__gguf_names *dt__gguf_names_of(const dt__gguf_model *g);
bool dt__gguf_has(const dt__gguf_model *g, const dt__gguf_name *n);
/* The row of the model that is row `row` of a tensor with these heads. */
int64_t dt__gguf_row(const dt__gguf_model *g, const dt__gguf_name *n, int64_t row);
/* What is added to the values of a norm in the file: Gemma's multiply by 1 + weight. */
float dt__gguf_offset(const dt__gguf_model *g, const dt__gguf_name *n);
/* The divisor by which the scores of gemma3 are scaled is the square root of this. */
double dt__gguf_query_width(const dt__gguf_model *g);
/* The divisor of frequency i of a head with llama3's scaling. */
double dt__gguf_rope_factor(const dt__gguf_model *g, int64_t i);

/* ---- reading -------------------------------------------------------------------------------- */

/* Whether the file can be read and begins as a GGUF file. */
bool dt__is_gguf(const char *path);
/* Reads a mapped file whose first bytes are DT__GGUF_MAGIC: tensors with the model's names, and
 * metadata as in a file of detent. Errors: FORMAT (which rule, which tensor or key), UNSUPPORTED
 * (an architecture, a type of tensor, a setting that detent has not), NOMEM. */
dt_status dt__gguf_read(dt_file *file);

#endif
