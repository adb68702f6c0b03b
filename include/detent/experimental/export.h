/* experimental/export.h: traces, the exporters and their checks. A trace is the list of ops that a
 * model runs; the exporters of formats c, onnx and tflite write a model from its trace. */
#ifndef DETENT_EXPERIMENTAL_EXPORT_H
#define DETENT_EXPERIMENTAL_EXPORT_H

#include <detent/export.h>
#include <detent/experimental/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the trace ------------------------------------------------------------------------------- */

/* An extent (the size of a dimension) of a tensor, which may depend on the batch size B and the
 * number of tokens T: size * B^batch * T^length. */
typedef struct dt_extent {
    int64_t size;
    int batch, length; /* the powers: 0 or 1 */
} dt_extent;

/* The origin of a value of a trace. */
typedef enum dt_value_kind {
    DT_VALUE_INPUT,
    DT_VALUE_PARAMETER, /* a parameter or buffer of the model */
    DT_VALUE_CONSTANT,  /* computed from parameters alone, or made by a layer */
    DT_VALUE_POSITIONS, /* i32 [T]: 0, 1, ..., T - 1 */
    DT_VALUE_RESULT     /* of a call */
} dt_value_kind;

/* A tensor of a trace. */
typedef struct dt_trace_value {
    dt_value_kind kind;
    dt_dtype dtype;
    int rank;
    dt_extent extent[DT_MAX_RANK];
    const char *name; /* path of a parameter, or name of an input; else "" */
    /* PARAMETER: the model's own tensor, quantized or not; CONSTANT: its values, where an extent
     * that depends on B or T is 1, since all elements along it are equal. Lent. Others: NULL. */
    dt_tensor *tensor;
    int64_t call; /* the call that computes a RESULT; -1: none */
    int result;   /* which of its results */
    /* RESULT: the call that writes it, and the last call that reads it, which is dt_trace_calls()
     * if it is an output of the model; others: -1 */
    int64_t first, last;
    /* A result that is a coded tensor (device.h): int8 codes with this scale and zero point. */
    bool coded;
    float scale;
    int zero_point;
} dt_trace_value;

/* How a call reads a value. */
typedef struct dt_trace_operand {
    int64_t value; /* -1: this operand is not given */
    /* The quantization that is applied before the call reads it; NULL: none. */
    const dt_quant_spec *quant;
    bool coded;  /* the call reads codes; false with `quant`: it reads dequantized values */
    bool sample; /* activations: a row of codes is everything but the first dimension */
    /* `quant` is the scheme of a weight. A PARAMETER is a FakeQuantTensor or packed; a CONSTANT,
     * the weight of a layer with a folded norm or an adapter in a prepared model, is quantized by
     * it. */
    bool weight;
    /* For an activation with a static or learned range: f32 and i8 [1], lent; NULL: the range is
     * dynamic, or the scheme has no zero point. */
    dt_tensor *scale, *zero_point;
} dt_trace_operand;

/* A call of an op. */
typedef struct dt_trace_call {
    const dt_op *op;
    const void *options; /* options of the op for a batch of one example; NULL: the op has none */
    int64_t length;      /* internal: the number of tokens that `options` are for */
    const char *module;  /* path of the module that made the call; "" for the model itself */
    const char *type;    /* the type of that module: "conv2d" */
    int n_in, n_out;
    dt_trace_operand in[DT_MAX_IN];
    int64_t out[DT_MAX_OUT]; /* values; -1: no call reads this result */
    const void *other[2];    /* internal: the options for another batch size and another length */
} dt_trace_call;

/* The calls of ops that a model makes, and the values that they read and write. */
typedef struct dt_trace dt_trace;

/* An input of a model. Dimension 0 is the batch. */
typedef struct dt_trace_input {
    const char *name; /* NULL: "input", "input1", ... */
    dt_dtype dtype;   /* DT_F32, or DT_I32 for tokens */
    int rank;
    int64_t dims[DT_MAX_RANK]; /* dims of one example: dims[0] is 1 */
    bool tokens;               /* [1, length]: dimension 1 is symbolic, too */
    int64_t below;   /* integers: values are 0 ... below - 1; floats: likewise if it is above 0 */
    int64_t context; /* tokens: most tokens that the model takes; 0: no limit */
} dt_trace_input;

typedef struct dt_trace_options {
    const dt_trace_input *input;
    int n_inputs, n_outputs; /* n_outputs 0: 1 */
    /* Ops check shapes and compute nothing: constants have no values, and ranges need not have been
     * observed. For checking formats before a model is trained. */
    bool shapes_only;
    /* The operators that an op becomes in a format (dt_exporter); NULL: none, and the op is traced
     * as the calls of its `lower`, if it has one. `becomes` NULL: every op is traced as it is. */
    const char *(*becomes)(const char *op);
} dt_trace_options;

/* Runs a module in evaluation, without gradients and without fused ops, and records each call of an
 * op. Values that do not depend on an input become constants; calls whose results are not read are
 * left out. The module runs with two batch sizes, and with two lengths if an input has tokens:
 * extents that differ are symbolic. `m` may be of any type, with ops of the program's own; it is
 * left in evaluation mode and must outlive the trace. Errors: UNSUPPORTED, naming op and module (an
 * extent that is not a multiple of batch and length; a call that writes, or draws random numbers),
 * ARG, those of the forward pass, NOMEM. */
DT_API dt_status dt_trace_create(dt_module *m, const dt_trace_options *options, dt_trace **out);
/* The same for a model of a family, whose inputs `info` describes. */
DT_API dt_status dt_trace_model(dt_module *m, const dt_model_info *info, bool shapes_only,
                                dt_trace **out);
/* NULL is allowed. */
DT_API void dt_trace_free(dt_trace *t);

/* The number of calls, and call i in execution order: lent, NULL if i is out of range. */
DT_API int64_t dt_trace_calls(const dt_trace *t);
DT_API const dt_trace_call *dt_trace_call_at(const dt_trace *t, int64_t i); /* as above */
/* The number of values, and value i in the order of creation: lent, NULL if i is out of range. */
DT_API int64_t dt_trace_values(const dt_trace *t);
DT_API const dt_trace_value *dt_trace_value_at(const dt_trace *t, int64_t i); /* as above */
/* The number of inputs and outputs; *values: their values, lent. */
DT_API int dt_trace_inputs(const dt_trace *t, const int64_t **values);
DT_API int dt_trace_outputs(const dt_trace *t, const int64_t **values); /* as above */
DT_API bool dt_trace_has_length(const dt_trace *t);                     /* an input has tokens */
/* The most tokens that the model takes; 0: it takes none. */
DT_API int64_t dt_trace_context(const dt_trace *t);

/* The integer at `offset` of a call's options as an extent, since it may depend on the batch; 0 if
 * the options have no integer there. */
DT_API dt_extent dt_trace_option(const dt_trace_call *c, size_t offset);
/* The extent for a batch size and a length; INT64_MAX if it is too large, as in the next two
 * functions. */
DT_API int64_t dt_extent_at(dt_extent e, int64_t batch, int64_t length);
/* The number of elements of a value. */
DT_API int64_t dt_trace_count(const dt_trace_value *v, int64_t batch, int64_t length);
/* Multiply-adds of a call; 0 for ops that are not products. */
DT_API int64_t dt_trace_multiply_adds(const dt_trace *t, const dt_trace_call *c, int64_t batch,
                                      int64_t length);
/* Whether the result has the elements of its operand in the same order: reshape, flatten. */
DT_API bool dt_trace_is_view(const dt_trace_call *c);
/* Whether the op may write its first result over operand i: it reads each element before it writes
 * that element, and both have one shape. */
DT_API bool dt_trace_is_in_place(const dt_trace *t, const dt_trace_call *c, int i);

/* The places of a trace's results in one block of memory. */
typedef struct dt_trace_plan {
    size_t bytes; /* of the block */
    /* offset of each value; SIZE_MAX if it is not a RESULT, or is an output of the model or a view
     * of one */
    size_t *offset;
    void *memory;
} dt_trace_plan;

/* Plans for one batch size and length. Values that are in use at the same time do not overlap. A
 * view has the place of its operand, and a result may overwrite an operand that no later call
 * reads, if the op allows it (dt_trace_is_in_place). `align` is a power of two. Free the plan with
 * dt_trace_plan_free. Errors: ARG (also if the block's size exceeds size_t), NOMEM. */
DT_API dt_status dt_trace_plan_create(const dt_trace *t, int64_t batch, int64_t length,
                                      size_t align, dt_trace_plan *out);
/* Frees a plan and zeroes it. */
DT_API void dt_trace_plan_free(dt_ctx *ctx, dt_trace_plan *p);

/* A block with a lifetime, for dt_plan_blocks. */
typedef struct dt_plan_block {
    size_t bytes;
    int64_t first, last; /* used from call `first` to call `last`, both included */
    size_t offset;       /* the result */
} dt_plan_block;

/* Places blocks so that those whose lifetimes share a call do not overlap: the largest first, each
 * into the smallest gap that holds it. *bytes: the total size. Errors: ARG (`align` is not a power
 * of two; the size exceeds size_t), NOMEM. */
DT_API dt_status dt_plan_blocks(dt_ctx *ctx, dt_plan_block *block, int64_t n, size_t align,
                                size_t *bytes);

/* ---- exporters ------------------------------------------------------------------------------- */

extern DT_API const char *const dt_onnx_opsets[]; /* "21", "25", NULL */
extern DT_API const char *const dt_onnx_ops[];    /* "plain", "nbits", "qdq", ended by NULL */
extern DT_API const char *const dt_gguf_types[];  /* "trained", "f32", ..., ended by NULL */

/* The input of an exporter. */
typedef struct dt_export_call {
    dt_ctx *ctx;
    dt_module *m;
    const dt_model_info *info;
    const dt_trace *trace; /* NULL unless the exporter is `traced` */
    const dt_export_options *options;
    const char *path;
    dt_export_summary *summary;
} dt_export_call;

/* A format in which models are written for other programs. */
typedef struct dt_exporter {
    const char *name; /* "hf" */
    const char *text; /* one sentence of help */
    const char *was;  /* a former name that the program still accepts; NULL: none */
    bool folder;      /* it writes a folder; false: a file */
    bool floats;      /* the format holds floats only (options->hf.dequantize) */
    bool traced;      /* it needs a trace of a model that is float or converted, not prepared */
    bool integers;    /* not traced, but a prepared model must be converted for it, too */
    /* Whether the format can express the model, prepared or not: OK, or UNSUPPORTED listing
     * everything that it cannot express. Called before anything is written, and before a model is
     * trained. NULL: the format can express any model. */
    dt_status (*check)(const dt_export_call *call);
    /* If `traced`: whether the format can express a call; if not, `why` gets the reason. */
    bool (*expresses)(const dt_trace *t, const dt_trace_call *c, const dt_export_options *options,
                      char *why, size_t size);
    /* If `traced`: the operators that an op becomes in the format; NULL: it has none. */
    const char *(*becomes)(const char *op);
    dt_status (*write)(const dt_export_call *call);
} dt_exporter;

/* The i-th exporter; NULL past the last. */
DT_API const dt_exporter *dt_exporter_at(int i);
/* The exporter with this name or former name; NULL if there is none, or name is NULL. */
DT_API const dt_exporter *dt_exporter_named(const char *name);

/* Parses a format as recipes name it: "c", "onnx", "onnx-nbits", "tflite", "gguf", "gguf-f16". Sets
 * *exporter, and the fields of *options that the name implies. False: unknown format. */
DT_API bool dt_export_format(const char *name, const dt_exporter **exporter,
                             dt_export_options *options);
/* Whether a model, prepared or not, could be written in a format as recipes name it: OK, or
 * dt_export's UNSUPPORTED. Writes nothing; ranges need not have been observed. */
DT_API dt_status dt_export_check(dt_module *m, const dt_model_info *info, const char *format);

/* The resources that one call of an op needs in an exported C program. */
typedef struct dt_cost_row {
    const char *module, *op; /* lent like the row; module "": the model itself */
    dt_shape output;         /* of one example */
    size_t flash;            /* bytes of constants that no earlier call reads */
    size_t ram;              /* bytes of the arena that are in use while it runs */
    int64_t multiply_adds;
    double instructions; /* estimated for a Cortex-M4 (docs/device.md) */
    bool peak;           /* the first of the calls during which most of the arena is in use */
} dt_cost_row;
/* Called with each row, which is lent during the call. */
typedef void (*dt_cost_fn)(void *user, const dt_cost_row *row);

/* The resources of one inference. Those of code and stack depend on the compiler. */
typedef struct dt_costs {
    size_t flash;         /* bytes of constants */
    size_t arena;         /* bytes in use at the same time, at most, and gaps between blocks */
    size_t input, output; /* bytes, allocated by the caller */
    bool integers;        /* a network of integers alone (device.h) */
    size_t cmsis_arena;   /* for such a network, if CMSIS-NN computes its layers; else 0 */
    /* Estimates for a Cortex-M4: the sum over rows, and the time without wait states of flash. */
    double instructions, cycles;
} dt_costs;

/* Computes the resources of format c: `each` gets one row per call, in order, except calls whose
 * result is just their operand. Writes nothing. Errors: ARG, STATE (a prepared model: convert it),
 * UNSUPPORTED (a language model, whose memory depends on the length of its text; what the format
 * cannot express), those of dt_trace_model, NOMEM. */
DT_API dt_status dt_export_costs(dt_module *m, const dt_model_info *info, dt_cost_fn each,
                                 void *user, dt_costs *out);

/* The differences between an export's results and the model's. */
typedef struct dt_export_difference {
    char output[96];           /* name, cut if it is longer */
    int64_t values, equal;     /* number of values, and of those with the same bits */
    double absolute, relative; /* the largest difference; divided by the largest magnitude */
} dt_export_difference;

/* Formats the last two numbers, in the form that is used wherever a difference is printed. */
#define DT_DIFFERENCE_TEXT "largest difference %.3g (relative to the largest output: %.3g)"

/* Runs an exported file by an interpreter that shares no code with the writer, on random inputs,
 * and the model on the same inputs. *n: number of outputs in `out`. Errors: UNSUPPORTED (format c,
 * which has its own self-test; formats without an interpreter), IO, FORMAT, NOMEM. */
DT_API dt_status dt_export_verify(dt_module *m, const dt_model_info *info, const char *path,
                                  dt_export_difference out[DT_MAX_OUT], int *n);
/* Announces that dt_export_verify will check an export in that format as part of the same work
 * (dt_set_progress), so that its time is included in the estimate. Errors: as for
 * dt_trace_model. */
DT_API dt_status dt_expect_verify(dt_module *m, const dt_model_info *info, const char *format);

/* Whether dt_export_open would accept the path as an exported file: by the end of its name; for a
 * folder by NAME.h, NAME.c and NAME_test.c in it. */
DT_API bool dt_export_is_file(const char *path);

#ifdef __cplusplus
}
#endif
#endif
