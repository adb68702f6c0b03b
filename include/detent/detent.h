/* detent.h: the basic API: status codes, context, tensors, tape.
 *
 * Conventions of all headers:
 *  1. dt_status is 0 or a negative code; dt_error(ctx) is the message.
 *  2. The caller frees what a function returns through `T **out`. A returned pointer is lent: it
 *     belongs to the tape, module or tensor that it came from.
 *  3. Ops return tensors lent by the tape. The first failing op leaves its error on the tape, and
 *     every later op returns NULL; dt_backward returns the error. A pass needs one check.
 *  4. Options: NULL means the defaults; otherwise start from dt_..._defaults().
 *  5. No function aborts, prints or exits.
 *  6. A context and everything made with it is used by one thread at a time.
 *  7. A NULL where an object is needed is an error: ARG, with a message where another argument
 *     leads to a context. A function without a status returns NULL, 0, false or NaN, or does
 *     nothing.
 *
 * Other headers: ops.h (operators), nn.h and layers.h (modules, models), optim.h (optimizers),
 * qat.h (quantization-aware training), ptq.h (rounders), device.h (networks of integers),
 * figures.h, data.h, text.h (tokenizers), io.h (files), export.h, train.h (recipes and runs),
 * sweep.h, report.h; keys.h describes options. */
#ifndef DETENT_DETENT_H
#define DETENT_DETENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DT_API __attribute__((visibility("default")))
#define DT_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define DT_API
#define DT_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------- */

/* The numbers never change. */
typedef enum dt_status {
    DT_OK = 0,
    DT_ERR_ARG = -1,          /* an argument is out of its range */
    DT_ERR_SHAPE = -2,        /* shapes do not fit together */
    DT_ERR_DTYPE = -3,        /* the function does not take this dtype */
    DT_ERR_STATE = -4,        /* the call is not allowed in this state */
    DT_ERR_NOMEM = -5,        /* the allocator returned NULL */
    DT_ERR_IO = -6,           /* the operating system refused a read or a write */
    DT_ERR_FORMAT = -7,       /* a file is not what its format says */
    DT_ERR_CONFIG = -8,       /* a recipe is wrong */
    DT_ERR_NUMERIC = -9,      /* NaN or infinity where a finite number is needed */
    DT_ERR_UNSUPPORTED = -10, /* well-formed, but this build or format cannot do it */
    DT_ERR_INTERRUPTED = -11  /* a signal stopped the run; a checkpoint was saved */
} dt_status;

/* The code's name, such as "DT_ERR_SHAPE". Never NULL; a constant string. */
DT_API const char *dt_status_name(dt_status status);

/* Replaces by '?' what a terminal obeys or does not show: controls, also those beyond ASCII, marks
 * of direction, separators of lines, and each byte that is no UTF-8. For names of strangers. */
DT_API void dt_text_clean(char *text);

#define DT_TEXT_JSON 16 /* bytes for a character */
/* Writes the next character of n bytes of text as it is in a string of JSON, with a NUL: escaped
 * where dt_text_clean replaces it, U+FFFD in place of a byte that is no UTF-8. Returns the bytes of
 * text that it took; 0: there is none. */
DT_API size_t dt_text_json(const char *text, size_t n, char out[DT_TEXT_JSON]);

/* The library's version, "major.minor.patch". */
DT_API const char *dt_version(void);

/* A callback that receives `bytes` bytes of text. A status other than DT_OK ends the output; the
 * function that called it returns that status. */
typedef dt_status (*dt_sink)(void *user, const char *text, size_t bytes);

/* ---- context ------------------------------------------------------------------------------ */

/* The context: allocator, random streams, logger, kernels. */
typedef struct dt_ctx dt_ctx;
/* A view of a storage that counts its references. Quantized models also have FakeQuantTensors,
 * which compute with integer codes of an fp32 master (qat.h), and packed tensors: the codes alone
 * of a converted weight. */
typedef struct dt_tensor dt_tensor;
/* One recorded forward pass, and the tensors that it lent. */
typedef struct dt_tape dt_tape;

/* The memory allocator. `allocate` returns `bytes` bytes aligned to `alignment` (a power of two),
 * or NULL. `release` receives the same pointer and size. */
typedef struct dt_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *pointer, size_t bytes);
    void *user;
} dt_allocator;

/* Receives one line of text, without a newline: a warning or a note. NULL: no logging. */
typedef void (*dt_logger)(void *user, const char *line);

/* Instruction sets, as bits of cpu_mask. Sets that the processor lacks are never used. */
#define DT_CPU_AVX2 ((uint64_t)1)         /* with FMA and F16C */
#define DT_CPU_AVX_VNNI ((uint64_t)2)     /* 256-bit VNNI */
#define DT_CPU_AVX512_VNNI ((uint64_t)4)  /* with AVX-512 F, BW, DQ and VL */
#define DT_CPU_AMX_INT8 ((uint64_t)16)    /* matrix tiles of bytes */
#define DT_CPU_AVX512_BF16 ((uint64_t)32) /* products of bf16 */
#define DT_CPU_NEON_DOT ((uint64_t)8)     /* the dot products of AArch64 (Armv8.2-A) */

typedef struct dt_ctx_options {
    dt_allocator allocator;  /* all zero: malloc and free */
    uint64_t seed;           /* of every random stream; default 0 */
    int threads;             /* 0: OMP_NUM_THREADS, else one for each processor */
    uint64_t cpu_mask;       /* DT_CPU_... that kernels may use; default all; 0: plain C only */
    bool leave_blas_threads; /* default false: OpenBLAS, which rounding with data
                                * loads, is set to one thread for the process */
    dt_logger log;
    void *log_user;
} dt_ctx_options;

/* The defaults of dt_ctx_create. */
DT_API dt_ctx_options dt_ctx_defaults(void);

/* Creates a context. `options` NULL means the defaults. Errors: NOMEM, ARG (threads outside
 * 0...1024, only one function of the allocator). There is no message, as there is no context. */
DT_API dt_status dt_ctx_create(dt_ctx **out, const dt_ctx_options *options);

/* Releases the caller's reference. The memory is freed with the last tensor, tape or module of the
 * context, so objects may be freed in any order. NULL is allowed. */
DT_API void dt_ctx_free(dt_ctx *ctx);

/* The message of the latest error on this context, "" if there was none. Lent, until the next
 * error. */
DT_API const char *dt_error(const dt_ctx *ctx);

/* The status code of that error; DT_OK if there was none. */
DT_API dt_status dt_error_status(const dt_ctx *ctx);

/* Whether the machine is to blame for it, and neither arguments nor a file: no memory, a disk that
 * is full or fails, too many open files. The same call may succeed later. */
DT_API bool dt_error_of_machine(const dt_ctx *ctx);

/* Records an error message on the context and returns `status`. For ops and layers outside of the
 * library. */
DT_API dt_status dt_fail(dt_ctx *ctx, dt_status status, const char *format, ...) DT_PRINTF(3, 4);

/* Memory of a context, in bytes, and the number of its allocations. */
typedef struct dt_memory {
    size_t used;          /* in tensors and other live blocks */
    size_t peak;          /* the largest `used` since dt_memory_reset_peak */
    size_t held;          /* used, and free blocks kept for reuse */
    uint64_t allocations; /* calls of `allocate` so far */
} dt_memory;

/* The current memory statistics of the context. */
DT_API dt_memory dt_memory_of(const dt_ctx *ctx);

/* Sets the peak to the memory in use now. */
DT_API void dt_memory_reset_peak(dt_ctx *ctx);

/* Frees the blocks that were kept for reuse. */
DT_API void dt_memory_trim(dt_ctx *ctx);

/* The number of threads of the context's loops, at least 1. Results do not depend on it. */
DT_API int dt_threads(const dt_ctx *ctx);

/* The kernels of the context: "plain", "avx2", "avx-vnni", "avx512-vnni", "avx512-bf16",
 * "amx-int8" or "neon-dot", the best that the processor has and that cpu_mask and $DETENT_CPU
 * allow. NULL with an error on the context: ARG ($DETENT_CPU is none of these), NOMEM. */
DT_API const char *dt_kernels_name(dt_ctx *ctx);

/* How products and convolutions of f32 values are computed where a tape records (numerics.md,
 * "Products of bf16"). */
typedef enum dt_float_products {
    DT_PRODUCTS_F32,  /* default */
    DT_PRODUCTS_BF16, /* of operands that are rounded to bf16, with sums in f32: about twice as fast
                       * where the processor has AVX-512 BF16, else slower */
} dt_float_products;

/* Sets that for later passes of the context. What a tape under dt_no_grad computes stays as it is,
 * and so do products of integers, attention, and grouped convolutions. Errors: ARG. */
DT_API dt_status dt_set_products(dt_ctx *ctx, int products);

/* Receives which share of some work is done, 0 ... 1. */
typedef void (*dt_share_told)(void *user, double share);

/* From then on dt_onnx_import, dt_tflite_import, dt_model_save and dt_export_verify tell `told` how
 * far they are, on the calling thread. The share of one piece of work rises; the next one begins
 * with another call. NULL: nobody is told. */
DT_API void dt_set_progress(dt_ctx *ctx, dt_share_told told, void *user);

/* Restarts every random stream of the context from `seed`. */
DT_API void dt_seed(dt_ctx *ctx, uint64_t seed);

/* ---- tensors ------------------------------------------------------------------------------ */

/* The most dimensions of a tensor. */
#define DT_MAX_RANK 8

/* Types of elements. */
typedef enum dt_dtype {
    DT_F32 = 0,
    DT_F64 = 1, /* for gradient checks; cannot be quantized */
    DT_I32 = 2,
    DT_I64 = 3,
    DT_U8 = 4,
    DT_I8 = 5,
    DT_BOOL = 6,
    DT_I4 = 7 /* opaque: two codes a byte, no views, no ops */
} dt_dtype;

/* "f32", "f64", "i32", ...; "?" for any other number. */
DT_API const char *dt_dtype_name(dt_dtype dtype);

/* Bytes of one element; 0 for DT_I4, whose elements are not addressable. */
DT_API size_t dt_dtype_size(dt_dtype dtype);

/* A new contiguous tensor of zeros, row-major. `dims` has `rank` extents, each >= 0; rank 0 is a
 * scalar. Errors: ARG (rank outside 0...DT_MAX_RANK, negative extent, size overflow), NOMEM. */
DT_API dt_status dt_tensor_create(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                  dt_tensor **out);

/* The same, filled with a copy of `data`, which has product(dims) elements in row-major order. */
DT_API dt_status dt_tensor_from(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                const void *data, dt_tensor **out);

/* A view of elements start ... start+count-1 of dimension `dim`: a new handle on the storage of
 * `x`, which the caller frees. Errors: ARG, NOMEM; STATE for a FakeQuantTensor, a packed or an i4
 * tensor. */
DT_API dt_status dt_tensor_narrow(dt_tensor *x, int dim, int64_t start, int64_t count,
                                  dt_tensor **out);

/* The values of `x` for dt_data: a new handle, which the caller frees, on the storage of `x` if it
 * is contiguous, else a contiguous copy. Results of a model may be views (dt_slice, dt_permute):
 * this, or dt_contiguous in ops.h, comes before dt_data of any result. Errors: as of
 * dt_tensor_narrow. */
DT_API dt_status dt_tensor_contiguous(const dt_tensor *x, dt_tensor **out);

/* Frees the caller's handle. The storage lives while a view or a tape needs it. NULL is allowed. */
DT_API void dt_tensor_free(dt_tensor *x);

DT_API dt_dtype dt_dtype_of(const dt_tensor *x);       /* element type */
DT_API int dt_rank(const dt_tensor *x);                /* number of dimensions */
DT_API int64_t dt_dim(const dt_tensor *x, int dim);    /* extent; negative `dim` counts from the
                                                        * end */
DT_API int64_t dt_stride(const dt_tensor *x, int dim); /* stride in elements, likewise */
DT_API int64_t dt_count(const dt_tensor *x);           /* number of elements */
DT_API bool dt_is_contiguous(const dt_tensor *x);      /* row-major without gaps */
DT_API uint64_t dt_tensor_version(const dt_tensor *x); /* grows with every write */
DT_API dt_ctx *dt_ctx_of(const dt_tensor *x);          /* the context it was made with */

/* The elements in row-major order, for reading. NULL with STATE for a view whose elements are not
 * in this order in memory (dt_tensor_contiguous, or dt_contiguous on a tape), for a FakeQuantTensor
 * or a packed tensor (use dt_inner), for i4, and for a tensor that was dropped. For a tensor
 * without elements the result may be NULL without an error. */
DT_API const void *dt_data(const dt_tensor *x);

/* The same, for writing: increments the storage's version. */
DT_API void *dt_data_mut(dt_tensor *x);

/* The only element of `x` as a double. NaN, with an error on the context, if `x` does not have
 * exactly one element or has no data of its own. */
DT_API double dt_item(const dt_tensor *x);

/* Writes one line that describes `x` ("f32[256,784]", "fake_quant(int4 symmetric group 32, enabled)
 * f32[256,784]") into `text`, cut to `size` bytes. Returns the full length. */
DT_API size_t dt_describe(const dt_tensor *x, char *text, size_t size);

/* ---- grouped parameters --------------------------------------------------------------------
 *
 * The experts of a layer are one tensor [count, dims...] that holds `count` experts of shape
 * [dims...]: one storage, one gradient, one optimizer state, quantized in one call. Aliases,
 * dt_detach, prepare and convert keep the mark. Elementwise ops and ops on the whole tensor
 * (dt_mul, dt_sum, dt_matmul) accept a grouped tensor. Ops that would mix experts, or would read
 * the tensor as one matrix, refuse it with STATE: dt_reshape, dt_flatten, dt_transpose, dt_permute,
 * dt_slice, dt_concat, dt_pad, dt_upsample_nearest, dt_linear..., dt_conv2d..., dt_embedding, and
 * dt_tensor_narrow. dt_grouped_linear (ops.h) multiplies each row by the expert that it is routed
 * to; dt_grouped_expert returns one expert as a tensor:
 *
 *     dt_tensor *w = ...;                         [8, out, in], dt_set_grouped, requires a gradient
 *     dt_tensor *third = dt_grouped_expert(w, 3); [out, in], shares the storage of w
 *     y = dt_linear(t, x, third, NULL);           the gradient goes to rows of dt_grad(w)
 *     dt_tensor_free(third); */

/* Marks `x` as grouped: its first dimension counts experts. The mark cannot be removed. Errors:
 * SHAPE (rank below 2, no expert, not contiguous), STATE (a tensor of a tape, a FakeQuantTensor, a
 * converted parameter). */
DT_API dt_status dt_set_grouped(dt_tensor *x);

/* Whether `x` is grouped. */
DT_API bool dt_is_grouped(const dt_tensor *x);

/* The number of experts; 0 if `x` is not grouped. */
DT_API int64_t dt_grouped_count(const dt_tensor *x);

/* Expert i of `w`, [dims...]: a handle that the caller frees. It shares the storage of `w` and
 * keeps `w` alive. It has the kind that `w` has now: dense, packed, or a FakeQuantTensor whose
 * dequantized values have the bits of those rows of `w`. (Handles from before prepare or convert
 * still see the master; take new ones.)
 *
 * Gradient: an expert requires a gradient if `w` does; only dt_set_requires_grad(w) changes that.
 * Gradients of an expert, on any number of tapes, are added to its slice of the gradient of `w`;
 * the other slices begin as zeros. dt_grad(expert) is a view of that slice, lent until
 * dt_grad_clear(w), and NULL while `w` has no gradient. dt_grad_clear(expert) fills the slice with
 * zeros. An alias of an expert has a gradient slot of its own.
 *
 * In-place ops on an expert write `w`, and in-place ops on `w` write the expert; the codes of both
 * are renewed when they are next read. An expert cannot be grouped, and cannot be a parameter of a
 * module. It allocates from the context of `w`, so passes of several contexts through one frozen
 * model cannot use it. NULL with the error on the context: ARG (no such expert), STATE (not
 * grouped, dropped, of a tape and requiring a gradient), NOMEM. */
DT_API dt_tensor *dt_grouped_expert(dt_tensor *w, int64_t i);

/* The axis of `w` that corresponds to axis `axis` of an expert. Negative axes count from the end:
 * for [N, out, in], 0 or -2 (out) gives 1, and 1 or -1 (in) gives 2. For programs that shard a
 * weight over devices. -1 with the error on the context: ARG, STATE (not grouped). */
DT_API int dt_grouped_shard_axis(const dt_tensor *w, int axis);

/* ---- gradients ---------------------------------------------------------------------------- */

/* Sets whether `x` is a leaf that requires a gradient. Errors: DTYPE unless f32 or f64; STATE for a
 * tensor that a tape made, and for a converted parameter. */
DT_API dt_status dt_set_requires_grad(dt_tensor *x, bool on);
DT_API bool dt_requires_grad(const dt_tensor *x); /* set on a leaf, or because an operand requires
                                                   * it */

/* The gradient of a leaf, lent until dt_grad_clear; NULL if there is none. */
DT_API dt_tensor *dt_grad(const dt_tensor *x);

/* Removes the gradient of `x`; the first contribution of the next backward becomes the gradient.
 * Its memory returns to the context's pool. */
DT_API void dt_grad_clear(dt_tensor *x);

/* ---- tape --------------------------------------------------------------------------------- */

/* A tape records one forward pass and owns every tensor that its ops return. Errors: NOMEM. */
DT_API dt_status dt_tape_create(dt_ctx *ctx, dt_tape **out);

/* Frees the tape and every tensor that it lent. NULL is allowed. */
DT_API void dt_tape_free(dt_tape *t);

/* Removes everything recorded, every tensor lent, and the error, for the next forward pass. Memory
 * stays in the context's pool, so a step whose shapes repeat allocates nothing. */
DT_API void dt_tape_reset(dt_tape *t);

/* The error that stopped the tape, or DT_OK. The message is dt_error(ctx). */
DT_API dt_status dt_tape_status(const dt_tape *t);

/* Sets the tape's error and message, as a failing op does. A tape that has an error keeps it.
 * Returns the tape's status. */
DT_API dt_status dt_tape_fail(dt_tape *t, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* The context of a tape. */
DT_API dt_ctx *dt_tape_ctx(const dt_tape *t);

/* Disables (true) or enables (false) recording, and returns the previous setting. Without
 * recording, a tape keeps nothing for backward. */
DT_API bool dt_no_grad(dt_tape *t, bool on);

/* Enables (true) or disables a check of every result: the first op that computes NaN or infinity
 * stops the tape with NUMERIC and names the op. Reads every result once more. Returns the previous
 * setting. */
DT_API bool dt_tape_watch(dt_tape *t, bool on);

/* Runs backward from `loss`: adds d loss / d leaf to the gradient of every leaf that requires one.
 * `dloss` NULL means 1, for a `loss` of one element; otherwise it has the shape of `loss`. Saved
 * values are freed as they are used. Errors: the tape's own error; ARG (loss is not of this tape,
 * shape), STATE (a second backward, a tensor written since it was recorded). */
DT_API dt_status dt_backward(dt_tape *t, dt_tensor *loss, const dt_tensor *dloss);

/* Declares that `x`, lent by `t`, is not read any more: its memory is reused as soon as backward
 * does not need it. Reading it afterwards is STATE. */
DT_API void dt_drop(dt_tape *t, dt_tensor *x);

/* Moves `x` from the scope of the running module to its caller's, so that it outlives the module's
 * forward. Returns x. */
DT_API dt_tensor *dt_keep(dt_tape *t, dt_tensor *x);

/* The same values without a gradient; a FakeQuantTensor remains one. Lent by the tape. */
DT_API dt_tensor *dt_detach(dt_tape *t, dt_tensor *x);

/* A new leaf on the same storage with a gradient slot of its own; a FakeQuantTensor remains one.
 * The caller frees it. Errors: NOMEM, STATE. */
DT_API dt_status dt_alias(dt_tensor *x, dt_tensor **out);

/* ---- random numbers ----------------------------------------------------------------------- */

/* Fills `x` (f32 or f64) with uniform numbers in [low, high). Element k depends on the context's
 * seed and on earlier draws, not on threads. Errors: DTYPE, ARG, STATE. */
DT_API dt_status dt_fill_uniform(dt_tensor *x, double low, double high);

/* Fills `x` (f32 or f64) with normally distributed numbers. Errors as above. */
DT_API dt_status dt_fill_normal(dt_tensor *x, double mean, double deviation);

/* Sets every element (any numeric dtype) to `value`, rounded to the dtype. */
DT_API dt_status dt_fill(dt_tensor *x, double value);

#ifdef __cplusplus
}
#endif
#endif
