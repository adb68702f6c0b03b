/* experimental/io.h: files of other programs, weights alone, names of tensors, quantized weights of
 * a file, training checkpoints. */
#ifndef DETENT_EXPERIMENTAL_IO_H
#define DETENT_EXPERIMENTAL_IO_H

#include <detent/io.h>
#include <detent/experimental/columns.h>
#include <detent/experimental/data.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/optim.h>
#include <detent/experimental/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ------------------------------------------------------------------------------ */

/* The tensor of this name, lent; NULL if there is none. log2(count) comparisons. */
DT_API const dt_file_entry *dt_file_find(const dt_file *file, const char *name);

/* Number of metadata pairs; 0 without metadata. */
DT_API int64_t dt_file_meta_count(const dt_file *file);

/* The i-th pair in the byte order of the keys, lent. False outside 0...count-1. */
DT_API bool dt_file_meta_at(const dt_file *file, int64_t i, const char **key, const char **value);

/* Verifies what detent adds to its files: the version (UNSUPPORTED if a newer major version wrote
 * the file) and the hash of the whole file (FORMAT if it differs, or is missing beside a version:
 * the file was damaged or changed). A file without these metadata keys passes. */
DT_API dt_status dt_file_check(const dt_file *file);

/* ---- writing ------------------------------------------------------------------------------ */

/* Adds a tensor of any dtype of the format and any rank. Name, dtype and dims are copied; `count`
 * and `bytes` are ignored and computed; `data` is borrowed until the writer is freed. An entry of
 * dt_file_at can be passed unchanged. Errors: ARG (name, shape, no data), DTYPE, NOMEM. */
DT_API dt_status dt_writer_add_bytes(dt_writer *w, const dt_file_entry *entry);

/* ---- models -------------------------------------------------------------------------------- */

extern DT_API const char *const dt_grouped_forms[]; /* "stacked", "experts", ended by NULL */

/* Bytes of the text of a plugin's hash, with its NUL. */
#define DT_PLUGIN_HASH 17

/* A plugin that the context has loaded (plugin.h). A model file names the plugins of the context
 * that wrote it (detent.plugins), and is refused if one of them is not loaded or is a different
 * file. */
typedef struct dt_plugin_info {
    const char *name, *text;
    const char *path;          /* as given by the caller */
    char hash[DT_PLUGIN_HASH]; /* XXH3-64 of the file, as text */
} dt_plugin_info;

/* The i-th plugin of the context, in the order of loading; NULL past the last. */
DT_API const dt_plugin_info *dt_plugin_at(const dt_ctx *ctx, int64_t i);

/* What a program must know to use a model: which numbers it reads, and what its outputs mean. */
typedef struct dt_model_data {
    const char *name; /* name of an input or output, if there are several; else NULL */
    /* "classes", "images", "masks", "values", "bits", "anomaly", "several"; "tokens": a language
     * model, where only the next fields are known */
    const char *target;
    /* How fields became prompts and completions (dt_prompt_fill); NULL: they were used
     * unchanged. */
    const char *prompt, *completion;
    int chat;           /* how messages became text (dt_chat_template); 0: there were no messages */
    const char *system; /* system message of dt_chat; NULL: none */
    dt_ints input;      /* shape of an example */
    dt_ints output;     /* shape of an output; none: not known */
    /* Meaning of an output: "logits" (of classes and of bits), "probabilities" (of classes),
     * "values", "image", "reconstruction" (of the example, whose error reveals anomalies); NULL:
     * not known */
    const char *meaning;
    /* For a model with several inputs or outputs: what is known of each; NULL: it has one. */
    int n_inputs, n_outputs;
    struct dt_model_data *inputs, *outputs;
    /* The model reads a number v of channel c as (v - mean[c]) / deviation[c], and a pixel p as v =
     * p/255; `axis` is the dimension of an example that counts channels. */
    int64_t channels; /* number of means and deviations; 0: the model reads numbers unchanged */
    int axis;
    const double *mean, *deviation;
    int64_t n_names; /* names of classes, or of the numbers of a target; 0: not known */
    const char *const *names;
    /* Levels of the quantiles that the model predicts: the output has all of them for each number
     * of the target, side by side; 0: the output has the numbers themselves. */
    int64_t n_quantiles;
    const double *quantiles;
    /* One threshold for two classes, or one per bit: class 1, or the bit, is predicted if its logit
     * (output 1 - output 0, in float) is above the threshold; 0: classes are predicted by the
     * largest output, bits by logits above 0. All thresholds are floats. */
    int64_t n_thresholds;
    const double *thresholds;
    int64_t n_columns; /* names of the columns of the training table; 0: not known */
    const char *const *columns;
    const dt_columns *table;      /* how its fields became numbers; NULL: they were numbers */
    dt_csv_form csv;              /* the form of the CSV files */
    bool pixels;                  /* examples were images of bytes */
    bool resized;                 /* files of any size were resized to these images (data.size) */
    bool channels_last;           /* arrays were [height, width, channels] (data.layout) */
    int64_t rate;                 /* samples per second of the training recordings; 0: not known */
    dt_features_options features; /* features that were computed from signals; kind none: none */
    int64_t samples; /* samples of a signal that became an example's features; 0: not known */
    dt_series_options series; /* examples were windows of rows of a table, input.v[0] long, */
    int64_t stride;           /* whose first rows were `stride` apart */
    void *memory;             /* owned by dt_model_data_parse */
} dt_model_data;

/* Writes the description of a dataset's examples, as a model file keeps it. Writes nothing for
 * tokens, which have none. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_model_data_text(const dt_dataset *d, dt_sink sink, void *user);
/* Reads such a text; `name` stands for the file in messages. The caller frees it. Errors: FORMAT,
 * NOMEM. */
DT_API dt_status dt_model_data_parse(dt_ctx *ctx, const char *text, const char *name,
                                     dt_model_data *out);
DT_API void dt_model_data_free(dt_ctx *ctx, dt_model_data *data); /* NULL is allowed */
/* Sets a dataset's mean, deviation and their dimension to the model's, whatever they were; if the
 * model has none, numbers stay as they are, and pixels too where the model was trained on them.
 * Tokens are left. Errors: ARG (another number of channels). */
DT_API dt_status dt_model_data_standardize(const dt_model_data *data, dt_dataset *d);
/* Reads examples from a file in the way in which the model's training data were read:
 *     .png    an image of the model's size, with its channels
 *     .npy, .npz, .safetensors    FILE or FILE:NAME: one example, or [count, example]
 *     .wav    a recording [samples, channels], or with one dimension less
 *     .csv    rows, or windows of rows (data.series); target columns in `columns` are ignored. If
 *             `columns` is NULL or has no inputs: the columns of `data`, by the names in the
 *             first line, else all columns
 *     -       such a table, from standard input
 * Recordings and other signals longer than an example are cut into windows without overlap; a
 * shorter one is padded with zeros. Then features are computed, and a loader standardizes. Labels
 * of the dataset are all 0. Errors, naming the file: IO, FORMAT (damaged; another size, rate or
 * number of columns; an unknown kind of file), NOMEM. */
DT_API dt_status dt_model_data_open(dt_ctx *ctx, const dt_model_data *data, const char *path,
                                    const dt_csv_options *columns, dt_dataset **out);

/* The same, but weights that are floats in the file become packed integers by the settings of
 * `qat`, rounded to nearest, while they are read: only one weight at a time is in memory as floats.
 * Codes and hooks are those of dt_prepare and dt_convert. NULL means the defaults; weights that are
 * integers in the file stay unchanged. Errors: also CONFIG (ranges that are not dynamic; `qat`
 * given and integers in the file), those of dt_prepare and dt_convert. */
DT_API dt_status dt_model_load_packed(dt_ctx *ctx, const char *path, const dt_qat_options *qat,
                                      dt_module **out, dt_model_info *info);

/* ---- other programs' models ----------------------------------------------------------------- */

/* dt_model_load of a Hugging Face folder: config.json of a Llama, Mistral, Qwen2, Qwen3, Mixtral,
 * Phi-3, OLMo 2 or SmolLM3 as family llama, of a GPT-2 as family gpt, and its tensors, in one file
 * or in shards, F32, F16 or BF16, or integers of compressed-tensors. `info` also receives the
 * folder's other contents, so that dt_hf_save writes them again. Errors: IO (no such folder, a
 * missing file), FORMAT, UNSUPPORTED (a setting that changes what the model computes and that the
 * family lacks: which), NOMEM. */
DT_API dt_status dt_hf_load(dt_ctx *ctx, const char *folder, dt_module **out, dt_model_info *info);
extern DT_API const char *const dt_hf_dtypes[]; /* names of these dtypes, ended by NULL */

/* Saves a model of family llama or gpt as a new folder, atomically: model.safetensors, config.json,
 * and the other files of the folder it came from (`info`). Numbers are rounded to nearest, ties to
 * even. If dtype and values are as they were read, every tensor has its original bytes. `options`
 * NULL: defaults. Errors: IO (`folder` exists and is not empty), UNSUPPORTED (another family, or
 * biases and norms that no model class has), STATE (an adapter), NUMERIC (beyond the range of f16),
 * NOMEM. */
DT_API dt_status dt_hf_save(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                            const char *folder);

/* Differences between results and those that another program computed. */
typedef struct dt_onnx_difference {
    char output[96];    /* the ONNX file's name of the value, cut if it is longer */
    char layer[96];     /* for a value inside the model: the layer that computes it; else "" */
    char operator_[32]; /* for such a value: the node's operator */
    double absolute;    /* the largest difference of two elements */
    double relative;    /* `absolute` divided by the largest expected magnitude */
} dt_onnx_difference;

/* The dimensions of an input, in the order of the file, including the batch: 0, or any number. */
typedef struct dt_onnx_shape {
    const char *input; /* its name in the file; NULL: there is one input */
    dt_ints dims;
} dt_onnx_shape;

/* What the caller knows about an ONNX model that its file does not say. Zeros: nothing. */
typedef struct dt_onnx_options {
    /* The model reads numbers v of an example's channel c as (v - mean[c]) / deviation[c], pixels p
     * as v = p/255: one number, or one for each channel, which is the first dimension of an
     * example. If only one list is given, the means are 0, or the deviations 1. For models with one
     * input. */
    dt_reals mean, deviation;
    /* Names of classes, in the order of the one output, [classes]. */
    const char *const *names;
    int64_t n_names;
    /* Inputs of three dimensions are [height, width, channels] in the file, as in TensorFlow; the
     * imported model reads [channels, height, width], as all of detent. */
    bool channels_last;
    /* The file computes one example: its inputs and outputs have no batch dimension. The imported
     * model has one. */
    bool no_batch;
    /* For dt_onnx_verify: the file of expected results (NULL: that of the inputs); and a callback
     * for each of them that is not an output of the model but the result of a layer, in the order
     * of the nodes (NULL: these are not compared). */
    const char *expected;
    void (*layer)(void *user, const dt_onnx_difference *d);
    void *user;
    /* For a quantized file: imports float weights, the values of its integers, and ignores its
     * ranges. */
    bool floats;
    /* For inputs with dimensions that are not numbers in the file, such as "height". */
    const dt_onnx_shape *shapes;
    int64_t n_shapes;
} dt_onnx_options;

/* Reads an ONNX model (operators of version 9 to 28) as a float model of family layers that
 * computes the same. The first dimension of every input is the batch, of any size, unless the
 * options say that there is none; the others must be numbers, in the file or in `shapes`. Layers
 * have the paths of their initializers ("features.0" for "features.0.weight"), else of their nodes.
 * Random streams do not change. `options` NULL: nothing is known. `info` (or NULL) receives how it
 * was built, and in `data` what the options or the file's metadata say about its numbers
 * (docs/program.md); free it with dt_model_info_free. Errors: IO; FORMAT (damaged, not an ONNX
 * file); UNSUPPORTED, naming the nodes that cannot be read; ARG (options that do not fit the model,
 * or that the file itself gives); NOMEM. */
DT_API dt_status dt_onnx_import(dt_ctx *ctx, const char *path, const dt_onnx_options *options,
                                dt_module **out, dt_model_info *info);

/* Reads a TFLite model as a model of family layers; one of int8 is prepared by preset device-int8
 * with the scales and zero points of the file, so that it computes the file's codes. Inputs are [1,
 * features] or images [1, height, width, channels], which the model reads as [channels, height,
 * width]. Random streams do not change. `info` (or NULL) as for dt_onnx_import. Errors: IO; FORMAT
 * (damaged, not a TFLite file); UNSUPPORTED, naming all operators that cannot be read, or a tensor
 * whose scale the device's arithmetic does not support; NUMERIC (sums that do not fit); NOMEM. */
DT_API dt_status dt_tflite_import(dt_ctx *ctx, const char *path, dt_module **out,
                                  dt_model_info *info);

/* One for each output of a model. */
typedef struct dt_onnx_differences {
    int n;
    dt_onnx_difference output[DT_MAX_OUT];
} dt_onnx_differences;

/* Runs a model that was imported with these options, in evaluation, on inputs of a file
 * .safetensors, .npz or .npy and compares its results with expected ones; both have the names and
 * the shapes of the ONNX file. If the model has one input, or one output, and the file one tensor,
 * the tensor's name is ignored. Errors: IO; FORMAT (a tensor is missing, or does not fit the
 * model); NOMEM. */
DT_API dt_status dt_onnx_verify(dt_module *m, const char *onnx, const char *values,
                                const dt_onnx_options *options, dt_onnx_differences *out);

/* The same for a model that dt_tflite_import made; images have their channels last in the files of
 * values, as LiteRT has them. `expected` NULL: the file of the inputs. Its inputs have their names
 * in the file or are called x, x2, x3 ..., its outputs likewise or y, y2, y3 ... */
DT_API dt_status dt_tflite_verify(dt_module *m, const char *tflite, const char *values,
                                  const char *expected, dt_onnx_differences *out);

/* The same for a network with one input and one output, whose weights came from a file without a
 * graph (dt_weights_import): the input is called x, the output y. */
DT_API dt_status dt_weights_verify(dt_module *m, const char *values, const char *expected,
                                   dt_onnx_differences *out);

/* ---- graphs of other programs ---------------------------------------------------------------- */

typedef struct dt_graph_value {
    const char *name, *type; /* "float", "int64", ... */
    const char *shape;       /* "[batch,3,224,224]" */
} dt_graph_value;

typedef struct dt_graph_operator {
    const char *name; /* with its domain, unless that is the standard's */
    int64_t count;
    bool known; /* whether import supports it, in some form */
} dt_graph_operator;

/* The contents of an ONNX file or, by the end of its name, a TFLite file, and everything that
 * prevents its import. The struct owns all memory that it points to. */
typedef struct dt_graph_info {
    const char *format;   /* "ONNX", "TFLite" */
    const char *producer; /* name and version; "" */
    int64_t version;      /* of the operators, or of the schema */
    int64_t n_inputs, n_outputs, n_operators, n_refusals;
    const dt_graph_value *input, *output;
    const dt_graph_operator *operator_; /* the most frequent first */
    int64_t nodes;
    int64_t parameters;   /* floats among its constants */
    const char **refusal; /* reasons; none: the file can be imported */
    void *memory;
} dt_graph_info;

/* Reads the contents without making a model; random streams do not change. Errors: IO, FORMAT
 * (damaged, or another kind of file), NOMEM. The caller frees *out. */
DT_API dt_status dt_graph_inspect(dt_ctx *ctx, const char *path, dt_graph_info *out);
DT_API void dt_graph_info_free(dt_ctx *ctx, dt_graph_info *info); /* NULL is allowed */

/* ---- weights alone -------------------------------------------------------------------------- */

/* Copies the weights of a file of any origin into a float or prepared model (for a prepared one
 * into the masters). Every parameter and buffer must be in the file with its name and shape, in
 * F32, F16, BF16, F64, or blocks of a GGUF file; integers of a compressed-tensors folder give their
 * values; other contents of a training checkpoint are ignored. All or nothing. Errors: IO, FORMAT
 * (as above: a checkpoint of another model, a converted one), UNSUPPORTED, STATE (m is converted or
 * frozen), NOMEM. */
DT_API dt_status dt_model_load_weights(dt_module *m, const char *path);

/* Restores the state of a file in m, a float model as its constructor made it: values and, if the
 * file has a prepared or converted model, wrappers, packed codes and hooks. This loads a converted
 * model whose family is not known: build the float model, then restore it. All or nothing. Errors:
 * as dt_model_load_weights; FORMAT where paths or shapes differ. */
DT_API dt_status dt_model_restore(dt_module *m, const char *path);
/* The most rules that rename tensors. */
#define DT_MAX_NAME_RULES 16

/* Renames tensors of a file. */
typedef struct dt_name_rule {
    const char *from; /* a POSIX extended regular expression that matches the whole name */
    const char *to;   /* the new name: \1 to \9 stand for what the parentheses of `from` matched */
    bool skip;        /* such tensors are ignored, and `to` is NULL or empty */
} dt_name_rule;

/* Errors: CONFIG (not a regular expression; a group that `from` does not have; both or neither of
 * to and skip). */
DT_API dt_status dt_name_rule_check(dt_ctx *ctx, const dt_name_rule *rule);

/* dt_model_load_weights with renaming: the first rule that matches a tensor's name renames or
 * ignores the tensor; other tensors keep their names. Errors: also CONFIG (a rule that matches
 * nothing, those of dt_name_rule_check), ARG (n). */
DT_API dt_status dt_model_load_renamed(dt_module *m, const char *path, const dt_name_rule *rule,
                                       int64_t n);

/* Where the tensors of another program's file belong in a network, and the order of their
 * dimensions. */
typedef struct dt_weight_rule {
    /* A pattern for whole names, "features.{i}.conv.weight": {i} is any text without dots and
     * slashes, {i...} any text; at most 9 of them, each used once. */
    const char *from;
    const char *to; /* the name in the network, with the same placeholders; NULL with `skip` */
    bool skip;      /* such tensors are ignored */
    bool transpose; /* swap the two dimensions: the same as permute 1, 0 */
    dt_ints
        /* dimension i of the result is dimension permute[i] of the file; none: unchanged */
        permute;
    dt_ints shape; /* shape of the result, after permute; none: unchanged */
} dt_weight_rule;

/* The order of dimensions if a rule does not give it. keras: kernels of convolutions are [height,
 * width, in, out], matrices [in, out] except those of embeddings. */
enum { DT_LAYOUT_PYTORCH, DT_LAYOUT_KERAS };
extern DT_API const char *const dt_weight_layouts[]; /* names of the layouts, ended by NULL */

/* The most rules of a map of weights. */
#define DT_MAX_WEIGHT_RULES 4096

typedef struct dt_weight_map {
    int layout;
    int64_t n;
    /* the first rule that matches a tensor applies; without a match the tensor keeps its name */
    const dt_weight_rule *rule;
} dt_weight_map;

/* Errors: CONFIG (not a pattern; a placeholder that `from` does not have; settings that exclude
 * each other). */
DT_API dt_status dt_weight_rule_check(dt_ctx *ctx, const dt_weight_rule *rule);

/* Builds the model of info->family and options with weights 0 instead of random ones, for a file to
 * overwrite. Random streams do not change. Errors: ARG (no family), those of the family, NOMEM. */
DT_API dt_status dt_model_blank(dt_ctx *ctx, const dt_model_info *info, dt_module **out);

/* Copies the weights of a file into a float model: F32, F16, BF16 or F64 of a safetensors file or
 * of another file of detent, floats of an .npz file. Every tensor of the file must have a place in
 * the model, be skipped by a rule, or be num_batches_tracked of a batch norm; every parameter and
 * buffer must be in the file, in the model's shape, and finite. `map` NULL: names and layout are
 * the model's. `say` gets a line for everything that was skipped, transposed or converted or, with
 * FORMAT, for each of the first 20 mistakes with the nearest valid name. After an error the model
 * is unchanged. Errors: IO, FORMAT, CONFIG (a rule), UNSUPPORTED, STATE (m is converted or frozen),
 * NOMEM. */
DT_API dt_status dt_weights_import(dt_module *m, const char *path, const dt_weight_map *map,
                                   dt_sink say, void *user);

/* Checks an open file of detent: version, hash, settings, codes and scales; if it describes its
 * model, that the model can be built and, for a checkpoint, that the run can be resumed. Files of
 * other programs pass. Errors: as for dt_model_load. */
DT_API dt_status dt_model_check(const dt_file *file);

/* A quantized weight of a file. */
typedef struct dt_file_weight {
    const char *name; /* path of the parameter: "layers.0.weight" */
    bool packed;      /* the file holds integers; false: a master */
    bool enabled;     /* for a master: whether fake quantization is enabled */
    bool g_idx;       /* groups are not consecutive columns: g_idx maps columns to groups */
    dt_quant_spec quant;
    char scheme[96];  /* "int4 symmetric group 32" */
    char rounder[16]; /* which algorithm chose the codes, for a weight without a model; else "" */
    int rank;
    int64_t dims[DT_MAX_RANK];
    int64_t experts; /* for a grouped weight: dims[0]; else 0 */
    int64_t count;   /* number of elements */
    size_t bytes;    /* bytes of codes, scales, zero points and g_idx, if packed */
} dt_file_weight;

/* The quantized weights of a file. */
typedef struct dt_file_weights dt_file_weights;

/* Reads the settings of a file's quantized weights; an empty list if it has none. The list may
 * outlive the file. Errors: FORMAT, NOMEM. */
DT_API dt_status dt_file_weights_read(const dt_file *file, dt_file_weights **out);
DT_API void dt_file_weights_free(dt_file_weights *w);           /* NULL is allowed */
DT_API int64_t dt_file_weights_count(const dt_file_weights *w); /* a tied weight counts once */
/* The i-th weight, lent; NULL outside 0...count-1. */
DT_API const dt_file_weight *dt_file_weights_at(const dt_file_weights *w, int64_t i);

/* ---- training checkpoints -------------------------------------------------------------------- */

typedef struct dt_named_count {
    const char *name;
    int64_t value;
    bool is_newer; /* a checkpoint may lack it: loading then leaves the value unchanged */
} dt_named_count;

typedef struct dt_named_value {
    const char *name;
    double value; /* any, also NaN and infinities */
} dt_named_value;

/* The state of a training run, from which it resumes bit for bit. Saving reads through these
 * pointers, loading writes through them. The random streams of the module's context are saved,
 * too. */
typedef struct dt_training_state {
    dt_module *module;
    dt_model_info info;        /* for `module`, when saving */
    dt_optimizer *optimizer;   /* for `module` */
    dt_freezer *freezer;       /* for `module`; NULL: none */
    dt_loader *const *loaders; /* their positions are saved, in this order */
    int n_loaders;
    dt_named_count *counts; /* named counters of the run, such as the step */
    int n_counts;
    dt_named_value *values; /* named values, such as the best loss */
    int n_values;
    const char *recipe; /* the resolved recipe, when saving; NULL: none */
} dt_training_state;

/* Saves the state as one file, atomically. Errors: ARG (a repeated name), IO, NOMEM. */
DT_API dt_status dt_checkpoint_save(const dt_training_state *s, const char *path);

/* Loads a checkpoint. s->module is the float model as its family makes it, with its optimizer; it
 * is prepared as in the checkpoint. s->counts and s->values must have the names that the checkpoint
 * has, and receive its values; info and recipe are not changed. All or nothing. Warns if the
 * processor or the OpenBLAS core differs, as bits may differ then. Errors: IO, FORMAT (damaged, not
 * a checkpoint, of another model or run: what differs), STATE (the module is already prepared),
 * UNSUPPORTED, NOMEM. */
DT_API dt_status dt_checkpoint_load(dt_training_state *s, const char *path);

/* The recipe of a checkpoint's run, lent by the file; NULL if none was saved. */
DT_API const char *dt_checkpoint_recipe(const dt_file *file);
/* *value becomes a counter of a checkpoint; unchanged if the checkpoint has none of this name.
 * Errors: FORMAT (not a checkpoint), NOMEM. */
DT_API dt_status dt_checkpoint_count(const dt_file *file, const char *name, int64_t *value);

/* Saves as `folder`/step-0000000500.safetensors, and creates the folder if it is missing. After the
 * file was synced to disk, deletes all but the newest `keep` of the checkpoints up to this step
 * (keep 0: deletes none). Errors: those of dt_checkpoint_save. */
DT_API dt_status dt_checkpoint_save_step(const dt_training_state *s, const char *folder,
                                         int64_t step, int64_t keep);

/* Finds the newest undamaged checkpoint of a folder, and warns of each damaged one. Writes its path
 * into `path` (`size` bytes) and its step into *step (or NULL). Errors: IO (no such folder, no good
 * checkpoint), ARG (size), NOMEM. */
DT_API dt_status dt_checkpoint_newest(dt_ctx *ctx, const char *folder, char *path, size_t size,
                                      int64_t *step);

#ifdef __cplusplus
}
#endif
#endif
