/* Internals of model files: metadata, rows of codes, and restoring and saving a module. The format
 * is described in docs/format.md. */
#ifndef DT__IO_MODEL_H
#define DT__IO_MODEL_H

#include "core/text/json.h"
#include "io/model/grouped_files.h"
#include "io/safetensors/safetensors.h"
#include "qat/device/device_plan.h"
#include "qat/prepare.h"

#define DT__KEY_MODEL "detent.model"
#define DT__KEY_QUANT "detent.quant"
#define DT__KEY_DEVICE "detent.device"
#define DT__KEY_TIED "detent.tied"
#define DT__KEY_LORA "detent.lora"
#define DT__KEY_BASE "detent.base" /* of a file of adapters: where their base is */
#define DT__KEY_TOKENIZER "detent.tokenizer"
#define DT__KEY_TOKENS "detent.tokens"
#define DT__KEY_DATA "detent.data"
#define DT__KEY_HF "detent.hf"   /* other contents of a Hugging Face folder: hf_origin.c */
#define DT__OWN_PREFIX "detent." /* tensors with this prefix are not a model's */

/* Begins to parse a metadata value, with memory for its strings; the caller frees *strings. *has
 * false: the file has no such value. */
dt_status dt__meta_scan(const dt_file *file, const char *key, dt__json *j, char **strings,
                        bool *has);
/* The tensor `prefix``suffix` of a file; NULL if there is none. Errors: NOMEM. */
dt_status dt__file_part(const dt_file *file, const char *prefix, const char *suffix,
                        const dt_file_entry **out);

/* ---- detent.quant, detent.tied, detent.lora (model_meta.c) ----------------------------------- */

enum { DT__DISABLED, DT__ENABLED, DT__PACKED };
/* State of a static or learned range: still changed by training; frozen; of a converted model. */
enum { DT__OBSERVING, DT__FROZEN, DT__FIXED };

/* State of the batch norm behind a layer: folded with batch statistics; folded with frozen
 * statistics; removed, as it was merged into weight and bias. */
enum { DT__NORM_FOLDED, DT__NORM_FROZEN, DT__NORM_REMOVED };

/* Which weight a static or learned range belongs to: the folded weight (files of older versions),
 * or the layer's own. */
enum { DT__OF_FOLDED, DT__OF_OWN };

/* The quantization of one module. */
typedef struct dt__module_quant {
    const char *path; /* the module's path */
    bool simulated;
    bool has_weight, has_input;
    struct {
        dt_quant_spec scheme;
        bool has_range; /* static or learned, not dynamic */
        int range_state;
        int state;
        dt_ints shape;
        int64_t transposed_groups; /* 0 (absent): rows are the first dimension */
        bool is_transposed;
        int64_t experts; /* of a grouped weight: dims[0]; else 0 (absent) */
        bool is_grouped;
        /* number of op groups, each with a column order; 0 (absent): none */
        int64_t g_idx;
        bool has_g_idx; /* scale groups are not consecutive columns */
        bool has_norm;  /* a norm is folded into the weight */
        int norm;       /* DT__NORM_... */
        int range_of;   /* weight of a static or learned range: DT__OF_... */
        bool has_range_of;
    } weight;
    struct {
        dt_quant_spec scheme;
        bool has_range;
        int range_state;
        bool enabled;
    } input;
} dt__module_quant;

typedef struct dt__tie {
    const char *path, *first;
} dt__tie;

/* The adapter of one module. */
typedef struct dt__module_lora {
    const char *path;
    dt__lora lora;
} dt__module_lora;

/* The plan of an integer network (src/qat/device/device_plan.h): on which inputs it was
 * recorded. */
typedef struct dt__device_meta {
    bool given;
    dt_ints inputs; /* for each input: the rank, then the extents of an example */
    bool enabled;
    int range_state;
} dt__device_meta;

extern const dt_key dt__device_meta_keys[];

/* The metadata lists of a file. */
typedef struct dt__model_meta {
    dt_ctx *ctx;
    dt__module_quant *quant;
    dt__tie *tie;
    dt__module_lora *lora;
    bool trains_rest; /* other parameters than the adapters are trained, too */
    dt__device_meta device;
    /* ranges of results of an integer network: `path` is the range's path, `input` its settings */
    dt__module_quant *range;
    int64_t n_ranges, room_ranges;
    char *device_strings;
    int64_t n_quants, room_quants, n_ties, room_ties, n_loras, room_loras;
    char *quant_strings, *tie_strings, *lora_strings;
} dt__model_meta;

dt_status dt__model_meta_read(const dt_file *file, dt__model_meta *out);
void dt__model_meta_free(dt__model_meta *meta);
/* The grouped weights of a file, for dt__fit_open when there is no model; the caller frees them. */
dt_status dt__groups_of_meta(const dt__model_meta *meta, dt__groups *out);
/* The row map of a weight from its metadata, which were checked. */
dt__row_map dt__described_map(const dt__module_quant *quant);
/* The name of a module's weight, which the caller frees; NULL: NOMEM. */
char *dt__weight_name(dt_ctx *ctx, const char *module);
/* The name under which a tied parameter is saved; `name` itself if it is not tied. */
const char *dt__first_name(const dt__model_meta *meta, const char *name);

/* "rank" and "alpha" of a dt__lora. */
extern const dt_key dt__module_lora_keys[];

void dt__put_module_quant(dt__chars *t, const dt__module_quant *quant);

/* ---- converted weights (packed_rows.c) ------------------------------------------------------- */

/* A packed weight of a file: NAME.codes, NAME.scale, NAME.zero_point, NAME.g_idx. */
typedef struct dt__packed_place {
    const dt_file *file;
    const char *name;
    const dt__module_quant *quant;
} dt__packed_place;

/* Reads and checks the weight; *out (from dt__alloc) holds a reference to its codes. FORMAT, saying
 * what is wrong. */
dt_status dt__packed_read(const dt__packed_place *place, dt__packed **out);

/* ---- saving (model_save.c) ------------------------------------------------------------------- */

/* A model that is being added to a writer. */
typedef struct dt__saving {
    dt_ctx *ctx;
    dt_module *m;
    dt_writer *writer;
    void *arena;       /* memory that the writer borrows */
    dt__groups groups; /* parameters that are written as one tensor per expert */
    bool has_base;     /* only trained tensors are written; the others are in a base file */
} dt__saving;

/* Adds everything of the model to the writer. dt__saving_end must be called in any case. */
dt_status dt__saving_begin(dt__saving *s, dt_module *m, const dt_model_info *info);
void dt__saving_end(dt__saving *s);
/* dt_model_save with more metadata: pairs that end with a NULL key. */
dt_status dt__model_save_with(dt_module *m, const dt_model_info *info, const dt__meta *meta,
                              const char *path);
/* Memory that lives until dt__saving_end. NULL: NOMEM. */
void *dt__saving_keep(dt__saving *s, size_t bytes);
/* Adds a tensor of the model, or of a parameter's state, stacked or per expert. The data is
 * borrowed. */
dt_status dt__saving_add(dt__saving *s, const char *name, const dt_tensor *x);
dt_status dt__saving_add_bytes(dt__saving *s, const dt_file_entry *e);
/* Adds NAME.codes and the other parts of a converted weight. */
dt_status dt__packed_add(dt__saving *s, const char *name, const dt_tensor *x);

/* ---- loading (model_restore.h, model_load.c) ------------------------------------------------- */

/* Restores m from a file: values, and with `quantized` also wrappers, codes and hooks, for which m
 * must be a float model. File and model may have different forms of grouped parameters. All or
 * nothing. `then` is called before m changes and may still refuse; `after` when nothing can fail
 * any more. Both may read `fitted`, the file in the names and forms of m, until `after` returns. */
typedef struct dt__restoring {
    const dt_file *file;
    dt_module *m;
    bool quantized;
    dt_status (*then)(void *user, const dt_file *fitted); /* NULL: none */
    void (*after)(void *user);                            /* NULL: none */
    /* Called after each tensor is stored. If it fails, the model is partly changed and must be
     * freed. NULL: none */
    dt_status (*stored)(void *user, const char *path, dt_tensor *x);
    int *grouped; /* receives how the file stores experts, DT_GROUPED_...; may be NULL */
    void *user;
} dt__restoring;

dt_status dt__restore(const dt__restoring *r);

/* Copies ranges from the file whose values a prepared model has, where both have the same bits and
 * groups. From a folder of integers: static and learned ranges of weights. From a prepared model:
 * static ranges of weights, and frozen ranges of inputs and results, which stay frozen. Other files
 * have no ranges. *all: number of ranges in the file; *taken: number of copied ones. Errors: IO,
 * FORMAT, NOMEM. */
dt_status dt__ranges_take(dt_module *m, const char *path, int64_t *taken, int64_t *all);

/* dt_model_load_packed, if the model has the family and options of `as`. */
dt_status dt__model_load_packed(dt_ctx *ctx, const char *path, const dt_qat_options *qat,
                                const dt_model_info *as, dt_module **out);

/* Reads family and options of a file's model; the caller frees `info`. */
dt_status dt__model_info_read(const dt_file *file, dt_model_info *info);
/* Builds the model of a file for restoring: its matrices have no memory yet. */
dt_status dt__model_twin(const dt_file *file, const dt_model_info *info, dt_module **out);
/* Builds the model that a file describes. `info` as in dt_model_load. */
dt_status dt__model_of_file(const dt_file *file, dt_module **out, dt_model_info *info);
/* Whether a file is a training checkpoint whose parts have the right forms. */
bool dt__is_checkpoint(const dt_file *file);
/* Whether an entry is num_batches_tracked of PyTorch's batch norms, which is ignored. */
bool dt__is_batch_count(const dt_file_entry *e);
dt_status dt__checkpoint_check(const dt_file *file);

#endif
