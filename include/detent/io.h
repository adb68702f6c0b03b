/* io.h: files. Tensors are kept in safetensors files: eight bytes of header length, a JSON header
 * that says name, dtype, shape and place of every tensor, then the tensors' bytes. docs/format.md
 * lists the rules that are checked and what detent adds: models and training checkpoints. */
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

/* An open safetensors file. It is mapped, so the tensors' bytes are read when they are touched; a
 * file that somebody else cuts short while it is open may therefore end the program. */
typedef struct dt_file dt_file;

/* One tensor of a file, of any rank; all pointers are lent by the file. */
typedef struct dt_file_entry {
    const char *name;    /* UTF-8; may be empty, may hold control characters */
    const char *dtype;   /* as the format names it: "F32", "BF16", "U8", ... */
    int rank;            /* any: also above DT_MAX_RANK */
    const int64_t *dims; /* each >= 0 */
    int64_t count;       /* of elements */
    size_t bytes;        /* of the data */
    const void *data;    /* row-major, little-endian, aligned to nothing */
} dt_file_entry;

/* Opens a file and checks every rule of the format; the tensors' values are not looked at. A
 * Hugging Face folder (one with a config.json) is opened as if it were one file that detent wrote:
 * its shards together, and metadata that say how the model is built. Errors: IO (missing,
 * unreadable, no regular file), FORMAT (which rule, which tensor), UNSUPPORTED (of a folder: which
 * setting), NOMEM. */
DT_API dt_status dt_file_open(dt_ctx *ctx, const char *path, dt_file **out);

/* Closes the file; what it lent ends with it. NULL is allowed. */
DT_API void dt_file_close(dt_file *file);

/* Number of tensors. */
DT_API int64_t dt_file_count(const dt_file *file);

/* The i-th tensor in the order of their bytes in the file, lent; NULL outside 0...count-1. */
DT_API const dt_file_entry *dt_file_at(const dt_file *file, int64_t i);

/* The tensor of this name, lent; NULL where there is none. log2(count) comparisons. */
DT_API const dt_file_entry *dt_file_find(const dt_file *file, const char *name);

/* Number of metadata pairs; 0 without metadata. */
DT_API int64_t dt_file_meta_count(const dt_file *file);

/* The i-th pair in the order of the keys' bytes, lent. False outside 0...count-1. */
DT_API bool dt_file_meta_at(const dt_file *file, int64_t i, const char **key, const char **value);

/* The value of a metadata key, lent; NULL where there is none. */
DT_API const char *dt_file_meta(const dt_file *file, const char *key);

/* Reads a tensor into a new one of the context, converted to `dtype`:
 *     F32 from F32, F16, BF16 (exact) and F64 (nearest);  F64 from F64, F32, F16, BF16;
 *     U8, I8, I32, I64 from themselves and from integers whose every value they hold;
 *     BOOL from BOOL.
 * Errors: ARG (no such tensor), DTYPE (any other pair), UNSUPPORTED (rank above DT_MAX_RANK, empty
 * but with dimensions that are too large), NUMERIC (an F64 beyond the range of f32), FORMAT (a BOOL
 * that is neither 0 nor 1), NOMEM. */
DT_API dt_status dt_file_load(const dt_file *file, const char *name, dt_dtype dtype,
                              dt_tensor **out);

/* Verifies what detent adds to the files that it writes: the version (UNSUPPORTED where a newer
 * major one wrote the file) and the hash of the whole file (FORMAT where it differs: the file was
 * damaged or changed). A file without these metadata keys passes. */
DT_API dt_status dt_file_check(const dt_file *file);

/* ---- writing ------------------------------------------------------------------------------ */

/* Collects tensors and metadata, then writes them as one file. */
typedef struct dt_writer dt_writer;

/* An empty writer. Errors: NOMEM. */
DT_API dt_status dt_writer_create(dt_ctx *ctx, dt_writer **out);

/* Frees the writer; written files stay. NULL is allowed. */
DT_API void dt_writer_free(dt_writer *w);

/* Adds a metadata pair; both texts are copied. detent.version and detent.xxh3 are the writer's own.
 * Errors: ARG (no UTF-8, a key given before, one of those two), NOMEM. */
DT_API dt_status dt_writer_meta(dt_writer *w, const char *key, const char *value);

/* Adds a tensor of any dtype of the format and any rank. Name, dtype and dims are copied; `count`
 * and `bytes` are computed, whatever they say; `data` is borrowed until the writer is freed. An
 * entry that dt_file_at lent can be handed on as it is. Errors: ARG (name, shape, no data), DTYPE,
 * NOMEM. */
DT_API dt_status dt_writer_add_bytes(dt_writer *w, const dt_file_entry *entry);

/* Adds a tensor: its values are those at the time of the write. The writer keeps its storage; the
 * handle may be freed. Errors: ARG (name), STATE (a wrapper, dropped, not contiguous, opaque),
 * NOMEM. */
DT_API dt_status dt_writer_add(dt_writer *w, const char *name, const dt_tensor *x);

/* Writes the file, with detent.version and detent.xxh3 among its metadata. The same tensors and
 * metadata give the same bytes, in whatever order they were added. It is written beside `path`
 * under another name, synced, and then renamed: on any error the old file is there as it was, and
 * nothing else. May be called again. Errors: IO (the system's text), ARG (a name twice), NOMEM. */
DT_API dt_status dt_writer_write(dt_writer *w, const char *path);

/* ---- models -------------------------------------------------------------------------------- */

/* How a grouped parameter P of N experts stands in a file: as one tensor P, or as N, P.0 ... P.N-1;
 * with it its codes and scales, its optimizer's state. Loading takes either, whatever the model
 * has: grouped parameters, or N tensors of these names. */
enum { DT_GROUPED_STACKED, DT_GROUPED_EXPERTS };
extern DT_API const char *const dt_grouped_forms[]; /* "stacked", "experts", ended by NULL */

/* How a model is built again: what `model:` of a recipe says; and how it is written. */
typedef struct dt_model_info {
    const dt_family *family; /* NULL: unknown; such a file's weights can be loaded into a model */
    const void *options;     /* of family->options_size bytes, for family->create */
    const char *tokenizer;   /* of a language model: what dt_tokenizer_parse reads; NULL: none */
    const char *hf; /* what a Hugging Face folder said besides (docs/format.md); NULL: from none */
    int grouped;    /* DT_GROUPED_...: that of the file which was loaded, that of one to write */
    void *memory;   /* where dt_model_load keeps all this; NULL in one's own */
} dt_model_info;

/* Gives up what dt_model_load put into `info`, and zeroes it. NULL is allowed. */
DT_API void dt_model_info_free(dt_ctx *ctx, dt_model_info *info);

/* Saves a model as one file, whole or not at all: parameters and buffers under their paths, masters
 * of FakeQuantTensors with their settings, packed codes and scales of converted weights; a tied
 * parameter under its first path. `info` NULL: its family is not known. Errors: ARG (a path that
 * begins with "detent."), IO, NOMEM. */
DT_API dt_status dt_model_save(dt_module *m, const dt_model_info *info, const char *path);

/* Builds the model of a file: float, prepared or converted, as it was saved; also that of a
 * training checkpoint. Random streams stay as they are. `info` (or NULL) gets what it was built
 * from, to be freed. Errors: IO; FORMAT, naming what is wrong (damaged, no model of detent, values
 * out of range, tensors that are missing, too many or of another shape, all of them at once);
 * UNSUPPORTED (a newer major version); NOMEM. */
DT_API dt_status dt_model_load(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info);

/* ---- other programs' models ----------------------------------------------------------------- */

/* dt_model_load of a Hugging Face folder alone: config.json of a Llama, Qwen2, Qwen3 or Mixtral and
 * its tensors, in one file or in shards, F32, F16 or BF16, as family llama. `info` also gets what
 * else the folder said, so that dt_hf_save writes it again. Errors: IO (no such folder, a file that
 * is missing), FORMAT, UNSUPPORTED (a setting that changes what the model computes and that family
 * llama does not have: which), NOMEM. */
DT_API dt_status dt_hf_load(dt_ctx *ctx, const char *folder, dt_module **out, dt_model_info *info);

enum { DT_HF_AS_READ, DT_HF_F32, DT_HF_F16, DT_HF_BF16 };
extern DT_API const char *const dt_hf_dtypes[]; /* their names in options, ended by NULL */

typedef struct dt_hf_options {
    int dtype; /* of all tensors; as_read: as in the folder that the model was read from, or F32 */
    bool
        dequantize; /* the values of integers, in place of masters too; else integers are refused */
} dt_hf_options;

/* Saves a model of family llama as a new folder, whole or not at all: model.safetensors,
 * config.json, and what else its folder said (`info`). Numbers are rounded to nearest, ties to
 * even. Where it is written as it was read, every tensor has the bytes that it had. `options` NULL:
 * defaults. Errors: IO (`folder` is there and not empty), UNSUPPORTED (another family, or biases
 * and norms that no class of models has), STATE (integers, an adapter), NUMERIC (beyond the range
 * of f16), NOMEM. */
DT_API dt_status dt_hf_save(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                            const char *folder);

/* A way to write models for others. */
typedef struct dt_exporter {
    const char *name; /* "hf" */
    const char *text; /* one sentence */
    const char *was;  /* an old name, by which the program finds it too; NULL: it has none */
    bool folder;      /* what is written: a folder, else a file */
    bool floats; /* it can say nothing but floats: those that are quantized, or what their integers
                       * say, as the options ask */
    dt_status (*write)(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                       const char *path);
} dt_exporter;

/* The i-th exporter; NULL past the last. */
DT_API const dt_exporter *dt_exporter_at(int i);

/* ---- weights alone -------------------------------------------------------------------------- */

/* Copies the weights of a file, own or anybody's, into a float or prepared model (there into the
 * masters): every parameter and buffer must be there with its name and shape, in F32, F16, BF16 or
 * F64; what a training checkpoint holds besides is left out. All or nothing. Errors: IO, FORMAT (as
 * above: a checkpoint of another model, a converted one), UNSUPPORTED, STATE (m is converted or
 * frozen), NOMEM. */
DT_API dt_status dt_model_load_weights(dt_module *m, const char *path);

/* Checks all that detent promises of an open file: version, hash, settings, codes and scales, and,
 * where it says how, that the model can be built and a run go on. Files of others pass. Errors: as
 * dt_model_load. */
DT_API dt_status dt_model_check(const dt_file *file);

/* A quantized weight of a file. */
typedef struct dt_file_weight {
    const char *name; /* of the parameter: "layers.0.weight" */
    bool packed;      /* integers stand in the file; else its master */
    bool enabled;     /* of a master: whether it is quantized at the moment */
    bool g_idx; /* groups are not consecutive columns: a g_idx says which column is of which */
    dt_quant_spec quant;
    char scheme[96];  /* the same in words: "int4 symmetric group 32" */
    char rounder[16]; /* what chose the codes of a weight without a model; "" of others */
    int rank;
    int64_t dims[DT_MAX_RANK];
    int64_t experts; /* of a grouped weight, dims[0]; else 0 */
    int64_t count;   /* of weights */
    size_t bytes;    /* codes, scales, zero points and g_idx once packed */
} dt_file_weight;

/* The quantized weights of a file. */
typedef struct dt_file_weights dt_file_weights;

/* Reads the settings of a file's quantized weights; none where it has none. The list may outlive
 * the file. Errors: FORMAT, NOMEM. */
DT_API dt_status dt_file_weights_read(const dt_file *file, dt_file_weights **out);
DT_API void dt_file_weights_free(dt_file_weights *w);           /* NULL is allowed */
DT_API int64_t dt_file_weights_count(const dt_file_weights *w); /* a tied weight counts once */
/* The i-th, lent; NULL outside 0...count-1. */
DT_API const dt_file_weight *dt_file_weights_at(const dt_file_weights *w, int64_t i);

/* ---- training checkpoints -------------------------------------------------------------------- */

typedef struct dt_named_count {
    const char *name;
    int64_t value;
} dt_named_count;

typedef struct dt_named_value {
    const char *name;
    double value; /* any, NaN and infinities too */
} dt_named_value;

/* What a run needs to go on, bit for bit. The run fills it in once; saving reads through it,
 * loading writes through it. The random streams of the module's context belong to it. */
typedef struct dt_training_state {
    dt_module *module;
    dt_model_info info;        /* of `module`, to save */
    dt_optimizer *optimizer;   /* of `module` */
    dt_loader *const *loaders; /* their positions, in this order */
    int n_loaders;
    dt_named_count *counts; /* counters of the run, such as the step, by name */
    int n_counts;
    dt_named_value *values; /* such as the best loss, by name */
    int n_values;
    const char *recipe; /* the resolved recipe, to save; NULL: none */
} dt_training_state;

/* Saves all of it as one file, whole or not at all. Errors: ARG (two of one name), IO, NOMEM. */
DT_API dt_status dt_checkpoint_save(const dt_training_state *s, const char *path);

/* Loads a checkpoint. s->module is the model as its family makes it, float, with its optimizer; it
 * is prepared as the checkpoint says. s->counts and s->values must name what the checkpoint holds
 * and are written through; info and recipe are left alone. All or nothing. Warns where processor or
 * OpenBLAS core differ: bits then may. Errors: IO, FORMAT (damaged, no checkpoint, of another model
 * or another run: what differs), STATE (a module that is prepared already), UNSUPPORTED, NOMEM. */
DT_API dt_status dt_checkpoint_load(dt_training_state *s, const char *path);

/* The recipe that a checkpoint's run was made from, lent by the file; NULL where none was saved. */
DT_API const char *dt_checkpoint_recipe(const dt_file *file);

/* Saves as `folder`/step-0000000500.safetensors, making the folder where it is missing; then, once
 * that is safely on disk, deletes the checkpoints of lower steps beyond the newest `keep` (0:
 * none). Errors: those of dt_checkpoint_save. */
DT_API dt_status dt_checkpoint_save_step(const dt_training_state *s, const char *folder,
                                         int64_t step, int64_t keep);

/* The newest checkpoint of a folder that is not damaged, with a warning for each that is: its path
 * into `path` of `size` bytes, its step into *step (or NULL). Errors: IO (no such folder, no good
 * checkpoint in it), ARG (size), NOMEM. */
DT_API dt_status dt_checkpoint_newest(dt_ctx *ctx, const char *folder, char *path, size_t size,
                                      int64_t *step);

#ifdef __cplusplus
}
#endif
#endif
