/* export.h: models in formats of other programs. docs/export.md says what each format holds, and
 * what is promised of it. */
#ifndef DETENT_EXPORT_H
#define DETENT_EXPORT_H

#include <detent/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- exporters ------------------------------------------------------------------------------- */

enum { DT_ONNX_PLAIN, DT_ONNX_NBITS, DT_ONNX_QDQ };

/* Types of the weights in a GGUF file. TRAINED: quantized weights keep the block type that holds
 * their codes, others are F32; F32, F16: dequantized values; others: quantized weights in blocks of
 * this type. */
enum {
    DT_GGUF_TRAINED,
    DT_GGUF_F32,
    DT_GGUF_F16,
    DT_GGUF_Q4_0,
    DT_GGUF_Q8_0,
    DT_GGUF_TQ1_0,
    DT_GGUF_TQ2_0,
    DT_GGUF_Q2_0,
    DT_GGUF_Q1_0
};

typedef struct dt_export_options {
    dt_hf_options hf; /* format hf */
    int onnx_ops;     /* format onnx: DT_ONNX_... */
    bool past;        /* format onnx: keys and values of earlier tokens are inputs and outputs */
    int64_t accuracy; /* format onnx, nbits: accuracy_level, 0 or 4 */
    /* Format onnx: index into dt_onnx_opsets (experimental/export.h): 0 is opset 21, where codes of
     * 2 bits are INT4; 1 is opset 25, where they are INT2. */
    int onnx_opset;
    int gguf_type;    /* format gguf: DT_GGUF_... */
    const char *name; /* format c: an identifier that begins all names; NULL: from the path */
    int64_t context;  /* format c: most tokens of a language model; 0: the model's context */
    bool text;        /* format c: also writes tokenizer and sampling */
    /* `progress` is called as the export goes on; `note` gets each line that a user should know
     * about what was written. Either may be NULL. */
    void (*progress)(void *user, int64_t done, int64_t all);
    void (*note)(void *user, const char *line);
    void *user;
} dt_export_options;

typedef struct dt_export_summary {
    int64_t integer_products, float_products; /* calls that multiply integers there, and floats */
    size_t bytes;                             /* bytes written */
    bool exact;          /* all results are guaranteed to have the model's bits */
    const char *promise; /* which results equal detent's, in one sentence */
    bool changed; /* activations have other codes in the exported model than in training, or none */
} dt_export_summary;

/* Everything as the format writes it by default; no callbacks. */
DT_API dt_export_options dt_export_defaults(void);

/* Writes a model in a format, all or nothing. `options` NULL: defaults; `summary` may be NULL.
 * Errors: ARG (no module, no such format, no path, options out of range), STATE (a prepared model
 * for a format that needs a converted one), UNSUPPORTED (what the format cannot express: each op
 * with its module and the reason), IO, those of the format, NOMEM. */
DT_API dt_status dt_export(dt_module *m, const dt_model_info *info, const char *format,
                           const dt_export_options *options, const char *path,
                           dt_export_summary *summary);
/* An exported file as a module that runs it, so that dt_evaluate measures the file itself: .onnx
 * and .tflite by the interpreters of dt_export_verify, a folder of format c is compiled by $CC (cc)
 * and loaded into this process, so it must be trusted. It has one input of floats, [N, ...], and
 * one output, and no parameters; forward is without gradients. `info` (or NULL) receives what the
 * model was trained on, if the file says so; dt_model_info_free frees it. Errors: IO (also: no C
 * compiler), FORMAT, UNSUPPORTED (tokens, several inputs or outputs, operators that `import` reads
 * but the interpreters do not), NOMEM. */
DT_API dt_status dt_export_open(dt_ctx *ctx, const char *path, dt_module **out,
                                dt_model_info *info);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/export.h>
#endif
#endif
