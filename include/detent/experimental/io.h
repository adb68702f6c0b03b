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

/* Digits of a plugin's hash, and the end of the text. */
#define DT_PLUGIN_HASH 17

/* A plugin that the context has loaded (plugin.h). Model files name those of the context that wrote
 * them (detent.plugins), and are refused where one is not loaded, or is another file. */
typedef struct dt_plugin_info {
    const char *name, *text;
    const char *path;          /* as it was given */
    char hash[DT_PLUGIN_HASH]; /* XXH3-64 of the file */
} dt_plugin_info;

/* The i-th plugin of the context, in the order of loading; NULL past the last. */
DT_API const dt_plugin_info *dt_plugin_at(const dt_ctx *ctx, int64_t i);

/* What a program must know to use a model: which numbers it reads, and what its outputs mean. */
typedef struct dt_model_data {
    const char *name;   /* of an input or output of several; else NULL */
    const char *target; /* "classes", "images", "masks", "values", "bits", "anomaly", "several",
                         * "tokens": of a language model, of which only the next is known */
    /* How fields became prompts and completions (dt_prompt_fill); NULL: as they were. */
    const char *prompt, *completion;
    int chat;           /* how messages became text (dt_chat_template); 0: there were none */
    const char *system; /* of dt_chat; NULL: none */
    dt_ints input;      /* shape of an example */
    dt_ints output;     /* shape of an answer; none: not known */
    /* What an answer is: "logits" (of classes and of bits), "probabilities" (of classes), "values",
     * "image", "reconstruction" (of the example: the error tells anomalies); NULL: not known */
    const char *meaning;
    /* Of a model with several inputs or outputs: what is known of each; NULL: it has one. */
    int n_inputs, n_outputs;
    struct dt_model_data *inputs, *outputs;
    /* A number v of channel c was given to the model as (v - mean[c]) / deviation[c], pixels p as v
     * = p/255; `axis` is the dimension of an example that counts channels. */
    int64_t channels; /* of mean and deviation; 0: numbers were given as they are */
    int axis;
    const double *mean, *deviation;
    int64_t n_names; /* of classes, or of the numbers of a target; 0: not known */
    const char *const *names;
    /* Levels of a target that was learned by its quantiles: the answer has all of them for each
     * number of the target, side by side; 0: the numbers themselves. */
    int64_t n_quantiles;
    const double *quantiles;
    /* Of two classes one, of bits one for each: a class 1, or a bit, is there where its logit
     * (output 1 - output 0, in float) is above it; 0: classes by the largest output, bits above 0.
     * All are floats. */
    int64_t n_thresholds;
    const double *thresholds;
    int64_t n_columns; /* of a table that it was trained on; 0: not known */
    const char *const *columns;
    const dt_columns *table;      /* what its fields became; NULL: numbers as they are */
    dt_csv_form csv;              /* how they were written */
    bool pixels;                  /* examples were images of bytes */
    bool resized;                 /* and files of any size were resized to them (data.size) */
    bool channels_last;           /* arrays were [height, width, channels] (data.layout) */
    int64_t rate;                 /* samples per second of its recordings; 0: not known */
    dt_features_options features; /* that were computed of signals; kind none: none */
    int64_t samples;              /* of such a signal; 0: not known */
    dt_series_options series;     /* examples were windows of rows of a table, input.v[0] long, */
    int64_t stride;               /* whose first rows were so far apart */
    void *memory;                 /* owned by dt_model_data_parse */
} dt_model_data;

/* Writes what a dataset says of its examples, as the text that a model file keeps. Tokens have
 * none: writes nothing. Errors: those of the sink, NOMEM. */
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
/* Reads examples from a file, as the training data of the model were read:
 *     .png    an image of the model's size, in its channels
 *     .npy, .npz, .safetensors    FILE or FILE:NAME: one example, or [count, example]
 *     .wav    a recording [samples, channels], also those of one dimension less
 *     .csv    rows, or windows of them (data.series); targets of `columns` are ignored. If it is
 *             NULL, or without inputs: those of `data`, by the names in the first line, else all
 *     -       such a table, from standard input
 * Recordings and other signals longer than an example are cut into windows without overlap; a
 * shorter one is filled up with zeros. Then features are computed, and a loader standardizes.
 * Labels of the dataset are all 0. Errors, naming the file: IO, FORMAT (damaged, another size,
 * rate or number of columns, an unknown kind of file), NOMEM. */
DT_API dt_status dt_model_data_open(dt_ctx *ctx, const dt_model_data *data, const char *path,
                                    const dt_csv_options *columns, dt_dataset **out);

/* The same, and weights that are floats in the file become packed integers by the settings of
 * `qat`, to nearest, one after the other while they are read: the floats of one at a time are in
 * memory. Codes and hooks are those of dt_prepare and dt_convert. NULL means the defaults, and
 * weights that are integers already stay as they are. Errors: CONFIG too (ranges that are not
 * dynamic; `qat` given and integers in the file), those of dt_prepare and dt_convert. */
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
extern DT_API const char *const dt_hf_dtypes[]; /* the names of these, ended by NULL */

/* Saves a model of family llama or gpt as a new folder, atomically: model.safetensors, config.json,
 * and the other files of the folder it came from (`info`). Numbers are rounded to nearest, ties to
 * even. If dtype and values are as they were read, every tensor has its original bytes. `options`
 * NULL: defaults. Errors: IO (`folder` exists and is not empty), UNSUPPORTED (another family, or
 * biases and norms that no model class has), STATE (an adapter), NUMERIC (beyond the range of f16),
 * NOMEM. */
DT_API dt_status dt_hf_save(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                            const char *folder);

/* How far results are from those that another program computed. */
typedef struct dt_onnx_difference {
    char output[96];    /* the ONNX file's name of the value, cut if it is longer */
    char layer[96];     /* of a value inside: the layer that computes it; else "" */
    char operator_[32]; /* likewise: the node's operator */
    double absolute;    /* the largest difference of two elements */
    double relative;    /* that, divided by the largest expected magnitude */
} dt_onnx_difference;

/* The dimensions of an input, in the order of the file, the batch among them: 0, or any number. */
typedef struct dt_onnx_shape {
    const char *input; /* its name in the file; NULL: there is one input */
    dt_ints dims;
} dt_onnx_shape;

/* What a caller knows of an ONNX model beyond its file. Zeros: nothing. */
typedef struct dt_onnx_options {
    /* The model reads numbers v of an example's channel c as (v - mean[c]) / deviation[c], pixels p
     * as v = p/255: one number, or one for each channel, which is the first dimension of an
     * example. One of both lists alone: the other is 0, or 1. Of models with one input. */
    dt_reals mean, deviation;
    /* Of classes, in the order of the one output, [classes]. */
    const char *const *names;
    int64_t n_names;
    /* Inputs of three dimensions are [height, width, channels] in the file, as TensorFlow has them;
     * the model that is made reads [channels, height, width], as all of detent. */
    bool channels_last;
    /* The file computes one example: its inputs and outputs have no batch dimension. The model that
     * is made reads and gives batches of them. */
    bool no_batch;
    /* For dt_onnx_verify: the file of expected results (NULL: that of the inputs), and what is
     * called with each of them that is not an output of the model but the result of a layer, in the
     * order of the nodes (NULL: those are not compared). */
    const char *expected;
    void (*layer)(void *user, const dt_onnx_difference *d);
    void *user;
    /* Of a quantized file: float weights, the values of its integers; its ranges are left out. */
    bool floats;
    /* Of inputs with dimensions that are no numbers in the file, such as "height". */
    const dt_onnx_shape *shapes;
    int64_t n_shapes;
} dt_onnx_options;

/* Reads an ONNX model (operators of version 9 to 28) as a float model of family layers, which
 * computes the same. The first dimension of every input is the batch, of any size, unless the
 * options say that there is none; the others must be numbers, in the file
 * or by `shapes`. Layers have the paths of
 * their initializers ("features.0" of "features.0.weight"), else of their nodes. Random streams do
 * not change. `options` NULL: nothing is known. `info` (or NULL) receives how it was built, and in
 * `data` what the options or the file's metadata say of its numbers (docs/program.md); free it with
 * dt_model_info_free. Errors: IO; FORMAT (damaged, no ONNX file); UNSUPPORTED, naming the nodes
 * that cannot be read; ARG (options that do not fit the model, or that the file gives itself);
 * NOMEM. */
DT_API dt_status dt_onnx_import(dt_ctx *ctx, const char *path, const dt_onnx_options *options,
                                dt_module **out, dt_model_info *info);

/* Reads a TFLite model as a model of family layers; one of int8 is prepared by preset device-int8
 * with the scales and zero points of the file, so that it computes the file's codes. Inputs are
 * [1, features] or images [1, height, width, channels], which the model reads as [channels, height,
 * width]. Random streams do not change. `info` (or NULL) as of dt_onnx_import. Errors: IO; FORMAT
 * (damaged, no TFLite file); UNSUPPORTED, naming all operators that are not read, or a tensor whose
 * scale the device's arithmetic cannot have; NUMERIC (sums that do not fit); NOMEM. */
DT_API dt_status dt_tflite_import(dt_ctx *ctx, const char *path, dt_module **out,
                                  dt_model_info *info);

/* Of each output of a model. */
typedef struct dt_onnx_differences {
    int n;
    dt_onnx_difference output[DT_MAX_OUT];
} dt_onnx_differences;

/* Runs a model that was imported with these options, in evaluation, on inputs of a file
 * .safetensors, .npz or .npy and compares its results with expected ones; both have the names and
 * the shapes of the ONNX file. The name of a file's only tensor does not matter where the model has
 * one input, or one output. Errors: IO; FORMAT (a tensor is missing, or does not fit the model);
 * NOMEM. */
DT_API dt_status dt_onnx_verify(dt_module *m, const char *onnx, const char *values,
                                const dt_onnx_options *options, dt_onnx_differences *out);

/* The same of a model that dt_tflite_import made; images have their channels last in the files of
 * values, as LiteRT has them. `expected` NULL: the file of the inputs. Its inputs have their names
 * in the file or are called x, x2, x3 ..., its outputs likewise or y, y2, y3 ... */
DT_API dt_status dt_tflite_verify(dt_module *m, const char *tflite, const char *values,
                                  const char *expected, dt_onnx_differences *out);

/* The same of a network with one input and one output, whose weights came from a file without a
 * graph (dt_weights_import): its input is called x, its output y. */
DT_API dt_status dt_weights_verify(dt_module *m, const char *values, const char *expected,
                                   dt_onnx_differences *out);

/* ---- graphs of other programs ---------------------------------------------------------------- */

typedef struct dt_graph_value {
    const char *name, *type; /* "float", "int64", ... */
    const char *shape;       /* "[batch,3,224,224]" */
} dt_graph_value;

typedef struct dt_graph_operator {
    const char *name; /* with its domain, where that is not the standard's */
    int64_t count;
    bool known; /* whether import knows it, in some form */
} dt_graph_operator;

/* What is in an ONNX file, or by its ending in a TFLite file, and all that refuses to be read in
 * it. The struct lends all. */
typedef struct dt_graph_info {
    const char *format;   /* "ONNX", "TFLite" */
    const char *producer; /* name and version; "" */
    int64_t version;      /* of its operators, or of the schema */
    int64_t n_inputs, n_outputs, n_operators, n_refusals;
    const dt_graph_value *input, *output;
    const dt_graph_operator *operator_; /* the most frequent first */
    int64_t nodes;
    int64_t parameters;   /* real numbers among its constants */
    const char **refusal; /* none: the file can be imported */
    void *memory;
} dt_graph_info;

/* Reads it without making a model; random streams do not change. Errors: IO, FORMAT (damaged, or no
 * such file), NOMEM. The caller frees *out. */
DT_API dt_status dt_graph_inspect(dt_ctx *ctx, const char *path, dt_graph_info *out);
DT_API void dt_graph_info_free(dt_ctx *ctx, dt_graph_info *info); /* NULL is allowed */

/* ---- weights alone -------------------------------------------------------------------------- */

/* Copies the weights of a file of any origin into a float or prepared model (there into the
 * masters). Every parameter and buffer must be in the file with its name and shape, in F32, F16,
 * BF16, F64, or blocks of a GGUF file; integers of a compressed-tensors folder give their values;
 * other contents of a training checkpoint are ignored. All or nothing. Errors: IO, FORMAT (as
 * above: a checkpoint of another model, a converted one), UNSUPPORTED, STATE (m is converted or
 * frozen), NOMEM. */
DT_API dt_status dt_model_load_weights(dt_module *m, const char *path);

/* Brings m, a float model as its constructor made it, into the state of a file: values, and where
 * the file is of a prepared or converted model, wrappers, packed codes and hooks too. So a
 * converted model whose family is not known comes back: build the float model, then restore it. All
 * or nothing. Errors: as dt_model_load_weights; FORMAT where paths or shapes differ. */
DT_API dt_status dt_model_restore(dt_module *m, const char *path);
/* The most rules that rename tensors. */
#define DT_MAX_NAME_RULES 16

/* What a file's tensors are called in the model. */
typedef struct dt_name_rule {
    const char *from; /* a POSIX extended regular expression that matches the whole name */
    const char *to;   /* the new name: \1 to \9 are what parentheses of `from` matched */
    bool skip;        /* such tensors are left out, and `to` is NULL or empty */
} dt_name_rule;

/* Errors: CONFIG (no regular expression; a part that `from` lacks; both or none of to and skip). */
DT_API dt_status dt_name_rule_check(dt_ctx *ctx, const dt_name_rule *rule);

/* dt_model_load_weights with other names: the first rule that matches a tensor's name renames it or
 * leaves it out; others keep theirs. Errors: also CONFIG (a rule that matches nothing, those of
 * dt_name_rule_check), ARG (n). */
DT_API dt_status dt_model_load_renamed(dt_module *m, const char *path, const dt_name_rule *rule,
                                       int64_t n);

/* Where tensors of another program's file belong in a network, and in which order their elements
 * are. */
typedef struct dt_weight_rule {
    /* A pattern of whole names, "features.{i}.conv.weight": {i} is any text without dots and
     * slashes, {i...} any text; at most 9 of them, each once. */
    const char *from;
    const char *to; /* the name in the network, with the same placeholders; NULL with `skip` */
    bool skip;      /* such tensors are left out */
    bool transpose; /* of two dimensions: the same as permute 1, 0 */
    dt_ints
        permute;   /* dimension i of the result is dimension permute[i] of the file; none: as is */
    dt_ints shape; /* of the result, after that; none: as it is */
} dt_weight_rule;

/* In which order dimensions are where a rule does not say it. keras: kernels of convolutions are
 * [height, width, in, out], matrices [in, out] except those of embeddings. */
enum { DT_LAYOUT_PYTORCH, DT_LAYOUT_KERAS };
extern DT_API const char *const dt_weight_layouts[]; /* the names of these, ended by NULL */

/* The most rules of a map of weights. */
#define DT_MAX_WEIGHT_RULES 4096

typedef struct dt_weight_map {
    int layout;
    int64_t n;
    const dt_weight_rule *rule; /* the first that matches counts; a tensor that none matches keeps
                                 * its name */
} dt_weight_map;

/* Errors: CONFIG (no pattern; a placeholder that `from` lacks; settings that exclude each
 * other). */
DT_API dt_status dt_weight_rule_check(dt_ctx *ctx, const dt_weight_rule *rule);

/* Builds the model of info->family and options with weights of 0 that are not drawn, for a file to
 * overwrite. Random streams do not change. Errors: ARG (no family), those of the family, NOMEM. */
DT_API dt_status dt_model_blank(dt_ctx *ctx, const dt_model_info *info, dt_module **out);

/* Copies the weights of a file into a float model: F32, F16, BF16 or F64 of a safetensors file or
 * of another file of detent, floats of an .npz file. Every tensor of the file must have a place in
 * the model, be left out by a rule, or be num_batches_tracked of a batch norm; every parameter and
 * buffer must be in the file, in the model's shape, and finite. `map` NULL: names and layout are
 * the model's. `say` gets a line for what was left out, turned or converted, or, with FORMAT, for
 * each of the first 20 mistakes with what would be nearest. The model changes only without error.
 * Errors: IO, FORMAT, CONFIG (a rule), UNSUPPORTED, STATE (m is converted or frozen), NOMEM. */
DT_API dt_status dt_weights_import(dt_module *m, const char *path, const dt_weight_map *map,
                                   dt_sink say, void *user);

/* Checks an open file of detent: version, hash, settings, codes and scales; if it describes its
 * model, that the model can be built and, for a checkpoint, the run resumed. Files of other
 * programs pass. Errors: as dt_model_load. */
DT_API dt_status dt_model_check(const dt_file *file);

/* A quantized weight of a file. */
typedef struct dt_file_weight {
    const char *name; /* path of the parameter: "layers.0.weight" */
    bool packed;      /* the file holds integers; false: a master */
    bool enabled;     /* of a master: whether fake quantization is enabled */
    bool g_idx;       /* groups are not consecutive columns: g_idx maps columns to groups */
    dt_quant_spec quant;
    char scheme[96];  /* "int4 symmetric group 32" */
    char rounder[16]; /* which algorithm chose the codes of a weight without a model; else "" */
    int rank;
    int64_t dims[DT_MAX_RANK];
    int64_t experts; /* of a grouped weight: dims[0]; else 0 */
    int64_t count;   /* of weights */
    size_t bytes;    /* of codes, scales, zero points and g_idx when packed */
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
    bool is_newer; /* a checkpoint may lack it: loading leaves the value then */
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
    dt_model_info info;        /* of `module`, for saving */
    dt_optimizer *optimizer;   /* of `module` */
    dt_freezer *freezer;       /* of `module`; NULL: none */
    dt_loader *const *loaders; /* their positions are saved, in this order */
    int n_loaders;
    dt_named_count *counts; /* named counters of the run, such as the step */
    int n_counts;
    dt_named_value *values; /* named values, such as the best loss */
    int n_values;
    const char *recipe; /* the resolved recipe, for saving; NULL: none */
} dt_training_state;

/* Saves the state as one file, atomically. Errors: ARG (a repeated name), IO, NOMEM. */
DT_API dt_status dt_checkpoint_save(const dt_training_state *s, const char *path);

/* Loads a checkpoint. s->module is the float model as its family makes it, with its optimizer; it
 * is prepared as the checkpoint says. s->counts and s->values must name what the checkpoint holds,
 * and receive it; info and recipe are not changed. All or nothing. Warns if the processor or
 * OpenBLAS core differ, as bits may differ then. Errors: IO, FORMAT (damaged, not a checkpoint, of
 * another model or run: what differs), STATE (the module is already prepared), UNSUPPORTED,
 * NOMEM. */
DT_API dt_status dt_checkpoint_load(dt_training_state *s, const char *path);

/* The recipe of a checkpoint's run, lent by the file; NULL if none was saved. */
DT_API const char *dt_checkpoint_recipe(const dt_file *file);
/* *value becomes a counter of a checkpoint; it stays as it is where there is none of this name.
 * Errors: FORMAT (not a checkpoint), NOMEM. */
DT_API dt_status dt_checkpoint_count(const dt_file *file, const char *name, int64_t *value);

/* Saves as `folder`/step-0000000500.safetensors, and creates the folder if it is missing. When the
 * file is safely on disk, deletes all but the newest `keep` of the checkpoints up to this step
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
