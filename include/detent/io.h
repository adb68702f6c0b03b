/* io.h: files. Tensors are stored in safetensors files: eight bytes of header length, a JSON header
 * with name, dtype, shape and offset of every tensor, then the tensors' bytes. docs/format.md lists
 * the rules that are checked and what detent adds: models and training checkpoints. */
#ifndef DETENT_IO_H
#define DETENT_IO_H

#include <detent/data.h>
#include <detent/nn.h>
#include <detent/optim.h>
#include <detent/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ------------------------------------------------------------------------------ */

/* An open safetensors file. It is memory-mapped, so bytes are read when they are accessed; if
 * another program truncates the file while it is open, the program may be killed. */
typedef struct dt_file dt_file;

/* One tensor of a file, of any rank. The file lends all pointers. */
typedef struct dt_file_entry {
    const char *name;    /* UTF-8; may be empty, may contain control characters */
    const char *dtype;   /* as the format writes it: "F32", "BF16", "U8", ... */
    int rank;            /* may exceed DT_MAX_RANK */
    const int64_t *dims; /* each >= 0 */
    int64_t count;       /* number of elements */
    size_t bytes;        /* bytes of the data */
    const void *data;    /* row-major, in this machine's byte order, not aligned */
} dt_file_entry;

/* Opens a file and checks every rule of the format; the tensors' values are not read. A Hugging
 * Face folder (one with a config.json) opens as if it were one file of detent: the tensors of all
 * shards, and metadata that describe the model; integers of compressed-tensors as those of a
 * converted model. A GGUF file of a Llama, Qwen2, Qwen3, Mixtral or GPT-2 likewise: its tensors
 * have the model's names, and dtypes F32, F16 and blocks (docs/format.md). Errors: IO (missing,
 * unreadable, not a regular file), FORMAT (which rule, which tensor), UNSUPPORTED (of a folder or
 * GGUF file: which setting), NOMEM. */
DT_API dt_status dt_file_open(dt_ctx *ctx, const char *path, dt_file **out);

/* Closes the file; pointers that it lent become invalid. NULL is allowed. */
DT_API void dt_file_close(dt_file *file);

/* Number of tensors. */
DT_API int64_t dt_file_count(const dt_file *file);

/* The i-th tensor in the order of offsets in the file, lent; NULL outside 0...count-1. */
DT_API const dt_file_entry *dt_file_at(const dt_file *file, int64_t i);

/* The value of a metadata key, lent; NULL if there is none. */
DT_API const char *dt_file_meta(const dt_file *file, const char *key);

/* Reads a tensor into a new one of the context, converted to `dtype`:
 *     F32 from F32, F16, BF16, blocks of GGUF files (exact) and F64 (to nearest);
 *     F64 from F64, F32, F16, BF16;
 *     U8, I8, I32, I64 from themselves and from integer dtypes of smaller range;
 *     BOOL from BOOL.
 * Errors: ARG (no such tensor), DTYPE (any other pair), UNSUPPORTED (rank above DT_MAX_RANK; empty
 * with extents that are too large), NUMERIC (an F64 beyond the range of f32), FORMAT (a BOOL that
 * is neither 0 nor 1), NOMEM. */
DT_API dt_status dt_file_load(const dt_file *file, const char *name, dt_dtype dtype,
                              dt_tensor **out);

/* ---- writing ------------------------------------------------------------------------------ */

/* Collects tensors and metadata, and writes them as one file. */
typedef struct dt_writer dt_writer;

/* An empty writer. Errors: NOMEM. */
DT_API dt_status dt_writer_create(dt_ctx *ctx, dt_writer **out);

/* Frees the writer; files that it wrote remain. NULL is allowed. */
DT_API void dt_writer_free(dt_writer *w);

/* Adds a metadata pair; both strings are copied. The writer itself sets detent.version and
 * detent.xxh3. Errors: ARG (not UTF-8, a repeated key, one of those two), NOMEM. */
DT_API dt_status dt_writer_meta(dt_writer *w, const char *key, const char *value);

/* Adds a tensor, with the values that it has at the time of the write; of a view that is not
 * contiguous, those that it has now. The writer keeps its storage; the handle may be freed. Errors:
 * ARG (name), STATE (a FakeQuantTensor, packed, dropped, i4), NOMEM. */
DT_API dt_status dt_writer_add(dt_writer *w, const char *name, const dt_tensor *x);

/* Writes the file, with detent.version and detent.xxh3 among its metadata. Equal tensors and
 * metadata give equal bytes, in whatever order they were added. The file is written under a
 * temporary name beside `path`, synced, and renamed; on any error the old file is unchanged. May be
 * called again. Errors: IO (the system's text), ARG (a repeated name), NOMEM. */
DT_API dt_status dt_writer_write(dt_writer *w, const char *path);

/* ---- models -------------------------------------------------------------------------------- */

/* How a file stores a grouped parameter P of N experts, its codes and scales, and its optimizer
 * state: as one tensor P, or as N tensors P.0 ... P.N-1. Loading reads both forms, into a grouped
 * parameter or into N tensors with these names. */
enum { DT_GROUPED_STACKED, DT_GROUPED_EXPERTS };

/* How to build a model (`model:` of a recipe), and how to write it. */
typedef struct dt_model_info {
    const dt_family *family; /* NULL: unknown; dt_model_load_weights reads such files */
    const void *options;     /* of family->options_size bytes, for family->create */
    const char *tokenizer;   /* for a language model: input of dt_tokenizer_parse; NULL: none */
    /* special tokens of its texts: input of dt_text_tokens_parse; NULL: none */
    const char *tokens;
    const char *data; /* what it was trained on: input of dt_model_data_parse; NULL: none */
    const char *hf;   /* other contents of a Hugging Face folder (docs/format.md); NULL: none */
    /* DT_GROUPED_...: the form in the file that was loaded, or that will be written */
    int grouped;
    const char *hash; /* detent.xxh3 of the file that was loaded; NULL: it had none */
    /* For adapters beside packed weights: the file that has the packed weights (detent.base in
     * docs/format.md). A model saved with it is written without the parameters that are not
     * trained. NULL: none */
    const char *base;
    void *memory; /* owned by dt_model_load; NULL in an info of your own */
} dt_model_info;

/* Frees what dt_model_load put into `info`, and zeroes it. NULL is allowed. */
DT_API void dt_model_info_free(dt_ctx *ctx, dt_model_info *info);

/* Saves a model as one file, atomically: parameters and buffers under their paths, masters of
 * FakeQuantTensors with their settings, packed codes and scales of converted weights; a tied
 * parameter once, under its first path. `info` NULL: the family is not stored. Errors: ARG (a path
 * that begins with "detent."), IO, NOMEM. */
DT_API dt_status dt_model_save(dt_module *m, const dt_model_info *info, const char *path);

/* Builds and loads the model of a file: float, prepared or converted, as it was saved; also from a
 * training checkpoint. Random streams do not change. `info` (or NULL) receives how it was built;
 * free it with dt_model_info_free. Errors: IO; FORMAT, naming all that is wrong (damaged, not a
 * model of detent, values out of range, tensors that are missing, unexpected or of another shape);
 * UNSUPPORTED (a newer major version); NOMEM. */
DT_API dt_status dt_model_load(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info);

/* ---- other programs' models ----------------------------------------------------------------- */

enum { DT_HF_AS_READ, DT_HF_F32, DT_HF_F16, DT_HF_BF16 };

typedef struct dt_hf_options {
    int dtype;       /* of all tensors; as_read: as in the folder that was read, or F32 */
    bool dequantize; /* of a prepared model: write dequantized values in place of masters. Converted
                      * weights are always dequantized */
} dt_hf_options;

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/io.h>
#endif
#endif
