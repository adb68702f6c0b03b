/* GGUF, the files of llama.cpp [ggml, docs/gguf.md]: types of tensors, names of tensors, and the
 * architectures that detent reads and writes. */
#ifndef DT__IO_GGUF_H
#define DT__IO_GGUF_H

#include "io/safetensors/safetensors.h"

#define DT__GGUF_MAGIC "GGUF"
#define DT__GGUF_ALIGNMENT 32
#define DT__GGUF_BLOCK 32       /* elements of a block of Q4_0 and Q8_0 */
#define DT__GGUF_LONG_BLOCK 256 /* elements of a block of Q2_K, Q3_K, TQ1_0 and TQ2_0 */
#define DT__GGUF_Q2_BLOCK 64    /* elements of a block of Q2_0 */
#define DT__GGUF_Q1_BLOCK 128   /* elements of a block of Q1_0 */

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

/* The type with this number; NULL: not supported. */
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

/* Where block type TQ1_0 stores element e (0 ... 255): in which byte, as which of its digits. */
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
    bool pairs; /* rows of q and k are ordered by rotated pairs, not by halves */
} dt__gguf_arch;

/* The architecture with this name of n bytes; NULL: not supported. */
const dt__gguf_arch *dt__gguf_arch_named(const char *name, size_t n);
#define DT__GGUF_ARCHS "llama, qwen2, qwen3, olmo2, smollm3, gemma3, gpt2 and gptneox"

#define DT__GGUF_UNROTATED 4 /* every n-th block of smollm3 has no rotation */
#define DT__GGUF_FULL_EVERY                                                                        \
    6 /* gemma3: every n-th block attends to the full context, if the file does not set it */
#define DT__GGUF_GEMMA_27B                                                                         \
    62 /* number of blocks of Gemma 3 27B, which scales attention scores differently */
/* The tensor with longrope's factors for long contexts. */
#define DT__GGUF_LONG_FACTORS "rope_factors_long.weight"
#define DT__GGUF_SHORT_FACTORS "rope_factors_short.weight"
#define DT__GGUF_GELU "detent.gelu_erf" /* of gptneox: activation is exact gelu; absent: true */

/* A model of family llama or gpt, as the reader and the writer of GGUF describe it. */
typedef struct dt__gguf_model {
    const dt__gguf_arch *arch;
    /* For family gpt only the fields that it shares. moe.experts 0: none. Derived extents are
     * filled in; block options include those of olmo2, smollm3 and gemma3. */
    dt_llama_options o;
    int64_t rotated; /* gptneox: rotated elements of a head; 0: learned positions */
    bool parallel, gelu_erf;
    bool biased; /* set by the reader for family gpt: attention and MLPs have biases */
} dt__gguf_model;

/* Whether the rows of a tensor are heads of queries or of keys, which some architectures
 * reorder. */
enum { DT__GGUF_NO_HEADS, DT__GGUF_Q_HEADS, DT__GGUF_K_HEADS };
typedef struct dt__gguf_name {
    const char *theirs; /* name in the file; in a block, without "blk.N." */
    const char *ours
        [3]; /* paths in the model; if several, the tensor has their rows, one after the other */
    unsigned when; /* set of conditions of a model that has this tensor (gguf_names.c) */
    int heads;
} dt__gguf_name;

/* The tensors of a family; the lists end with theirs NULL. */
typedef struct dt__gguf_names {
    const dt__gguf_name *whole, *block;
    const char *blocks; /* path of the blocks in the model, ending with a dot */
} dt__gguf_names;

const dt__gguf_names *dt__gguf_names_of(const dt__gguf_model *g);
bool dt__gguf_has(const dt__gguf_model *g, const dt__gguf_name *n);
/* The row of the model's tensor that is row `row` of the file's tensor n. */
int64_t dt__gguf_row(const dt__gguf_model *g, const dt__gguf_name *n, int64_t row);
/* The file's values of a norm are the model's plus this: 1 for Gemma, whose norms multiply by 1 +
 * weight. */
float dt__gguf_offset(const dt__gguf_model *g, const dt__gguf_name *n);
/* Attention scores of gemma3 are divided by the square root of this. */
double dt__gguf_query_width(const dt__gguf_model *g);
/* The divisor of frequency i of a head with llama3's scaling. */
double dt__gguf_rope_factor(const dt__gguf_model *g, int64_t i);

/* ---- reading -------------------------------------------------------------------------------- */

/* Whether the file is readable and begins with the magic number of GGUF. */
bool dt__is_gguf(const char *path);
/* Reads a mapped file whose first bytes are DT__GGUF_MAGIC: tensors with the model's names, and
 * metadata as in a file of detent. Errors: FORMAT (which rule, which tensor or key), UNSUPPORTED
 * (architecture, type of tensor, or setting), NOMEM. */
dt_status dt__gguf_read(dt_file *file);

#endif
