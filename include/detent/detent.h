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
 *  7. A NULL where an object is needed is an error: ARG, with a message if another argument has a
 *     context. A function without a status returns NULL, 0, false or NaN, or does nothing.
 *
 * Other headers: ops.h (operators), nn.h (modules), optim.h (optimizers), qat.h (quantization-aware
 * training), data.h, io.h (files), export.h, train.h (recipes and runs).
 *
 * These headers are the stable part of the interface: what they declare keeps its name, arguments
 * and meaning for all versions with the same first number (of 0.x the same first two), and a change
 * that breaks programs which are linked with the shared library gives it another number (SONAME).
 * Headers in experimental/ have the rest, which any version may change: a program that includes one
 * must be built for the version of the library that it runs with. experimental/all.h includes all
 * headers. */
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
    DT_ERR_IO = -6,           /* reading or writing failed in the operating system */
    DT_ERR_FORMAT = -7,       /* a file does not follow its format */
    DT_ERR_CONFIG = -8,       /* a recipe is wrong */
    DT_ERR_NUMERIC = -9,      /* NaN or infinity where a finite number is needed */
    DT_ERR_UNSUPPORTED = -10, /* well-formed, but this build or format cannot do it */
    DT_ERR_INTERRUPTED = -11  /* a signal stopped the run; a checkpoint was saved */
} dt_status;

/* The code's name, such as "DT_ERR_SHAPE". Never NULL; a constant string. */
DT_API const char *dt_status_name(dt_status status);

#define DT_TEXT_JSON 16 /* most bytes that dt_text_json writes for a character */

/* The library's version, "major.minor.patch". */
DT_API const char *dt_version(void);

/* ---- context ------------------------------------------------------------------------------ */

/* The context: allocator, random streams, logger, kernels. */
typedef struct dt_ctx dt_ctx;
/* A reference-counted view of a storage. Quantized models also have FakeQuantTensors, which compute
 * with integer codes of an fp32 master (qat.h), and packed tensors, which hold only the codes of a
 * converted weight. */
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

/* Instruction sets, as bits of cpu_mask. Sets that the processor lacks are never used; plain C,
 * which is tens of times slower, is always allowed. */
#define DT_CPU_PLAIN ((uint64_t)64)       /* only this bit: plain C only */
#define DT_CPU_AVX2 ((uint64_t)1)         /* with FMA and F16C */
#define DT_CPU_AVX_VNNI ((uint64_t)2)     /* 256-bit VNNI */
#define DT_CPU_AVX512_VNNI ((uint64_t)4)  /* with AVX-512 F, BW, DQ and VL */
#define DT_CPU_AMX_INT8 ((uint64_t)16)    /* matrix tiles of bytes and of bf16 */
#define DT_CPU_AVX512_BF16 ((uint64_t)32) /* products of bf16 */
#define DT_CPU_NEON_DOT ((uint64_t)8)     /* the dot products of AArch64 (Armv8.2-A) */

typedef struct dt_ctx_options {
    dt_allocator allocator; /* all zero: malloc and free */
    uint64_t seed;          /* of every random stream; default 0 */
    int threads;            /* 0: OMP_NUM_THREADS, else one for each processor */
    uint64_t cpu_mask;      /* DT_CPU_... that kernels may use; default 0: all */
    /* default false: OpenBLAS, which rounding with data loads, is set to one thread for the whole
     * process */
    bool leave_blas_threads;
    dt_logger log;
    void *log_user;
} dt_ctx_options;

/* The defaults of dt_ctx_create, all of which are zero. */
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

/* The status code of the latest error; DT_OK if there was none. */
DT_API dt_status dt_error_status(const dt_ctx *ctx);

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

/* Frees the blocks that were kept for reuse. */
DT_API void dt_memory_trim(dt_ctx *ctx);

/* The number of threads of the context's loops, at least 1. Results do not depend on it. */
DT_API int dt_threads(const dt_ctx *ctx);

/* The kernels of the context: "plain", "avx2", "avx-vnni", "avx512-vnni", "avx512-bf16",
 * "amx-int8" or "neon-dot", the best that the processor has and that cpu_mask and $DETENT_CPU
 * allow. NULL with an error on the context: ARG ($DETENT_CPU is none of these), NOMEM. */
DT_API const char *dt_kernels_name(dt_ctx *ctx);

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
 * call this, or dt_contiguous in ops.h, before dt_data of any result. Errors: as for
 * dt_tensor_narrow. */
DT_API dt_status dt_tensor_contiguous(const dt_tensor *x, dt_tensor **out);

/* Frees the caller's handle. The storage lives as long as a view or a tape needs it. NULL is
 * allowed. */
DT_API void dt_tensor_free(dt_tensor *x);

DT_API dt_dtype dt_dtype_of(const dt_tensor *x);       /* element type */
DT_API int dt_rank(const dt_tensor *x);                /* number of dimensions */
DT_API int64_t dt_dim(const dt_tensor *x, int dim);    /* extent; negative `dim` counts from the
                                                        * end */
DT_API int64_t dt_stride(const dt_tensor *x, int dim); /* stride in elements, likewise */
DT_API int64_t dt_count(const dt_tensor *x);           /* number of elements */
DT_API bool dt_is_contiguous(const dt_tensor *x);      /* row-major without gaps */
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

/* ---- gradients ---------------------------------------------------------------------------- */

/* Sets whether `x` is a leaf that requires a gradient. Errors: DTYPE unless f32 or f64; STATE for a
 * tensor that a tape made, and for a converted parameter. */
DT_API dt_status dt_set_requires_grad(dt_tensor *x, bool on);
/* set on the leaf, or implied by an operand that requires it */
DT_API bool dt_requires_grad(const dt_tensor *x);

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

/* Disables (true) or enables (false) recording, and returns the previous setting. Without
 * recording, a tape keeps nothing for backward. */
DT_API bool dt_no_grad(dt_tape *t, bool on);

/* Runs backward from `loss`: adds d loss / d leaf to the gradient of every leaf that requires one.
 * `dloss` NULL means 1, for a `loss` of one element; otherwise it has the shape of `loss`. Saved
 * values are freed as they are used. Errors: the tape's own error; ARG (loss is not of this tape,
 * shape), STATE (a second backward, a tensor written since it was recorded). */
DT_API dt_status dt_backward(dt_tape *t, dt_tensor *loss, const dt_tensor *dloss);

/* The same values without a gradient; a FakeQuantTensor remains one. Lent by the tape. */
DT_API dt_tensor *dt_detach(dt_tape *t, dt_tensor *x);

/* ---- random numbers ----------------------------------------------------------------------- */

/* Fills `x` (f32 or f64) with normally distributed numbers. Errors as above. */
DT_API dt_status dt_fill_normal(dt_tensor *x, double mean, double deviation);

/* Sets every element (any numeric dtype) to `value`, rounded to the dtype. */
DT_API dt_status dt_fill(dt_tensor *x, double value);

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/detent.h>
#endif
#endif
