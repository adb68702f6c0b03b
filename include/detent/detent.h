/* detent.h: the everyday API: status, context, tensors, tape.
 *
 * Rules, learned once:
 *  1. dt_status is 0 or a negative code; dt_error(ctx) says what went wrong and where.
 *  2. What comes out through `T **out` is yours to free; what is returned is lent by the tape,
 *     module or tensor that it came from.
 *  3. Ops return tensors lent by the tape. The first failing op leaves its error on the tape and
 *     every later op returns NULL at once; dt_backward reports it. A model reads as arithmetic and
 *     is checked once.
 *  4. Options: NULL means the defaults; otherwise start from dt_..._defaults().
 *  5. No function aborts, prints or exits.
 *  6. A context and all that was made with it is used by one thread at a time.
 *
 * Larger groups have headers of their own: ops.h, nn.h, optim.h, qat.h, data.h, io.h, train.h.
 */
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

/* Stable for ever. */
typedef enum dt_status {
    DT_OK = 0,
    DT_ERR_ARG = -1,          /* an argument is out of its range */
    DT_ERR_SHAPE = -2,        /* shapes do not fit together */
    DT_ERR_DTYPE = -3,        /* a dtype that the function does not take */
    DT_ERR_STATE = -4,        /* not now: the order of calls is wrong */
    DT_ERR_NOMEM = -5,        /* the allocator returned NULL */
    DT_ERR_IO = -6,           /* the operating system refused a read or a write */
    DT_ERR_FORMAT = -7,       /* a file is malformed */
    DT_ERR_CONFIG = -8,       /* a recipe is wrong */
    DT_ERR_NUMERIC = -9,      /* NaN or infinity where none may be */
    DT_ERR_UNSUPPORTED = -10, /* well-formed, but not built here */
    DT_ERR_INTERRUPTED = -11  /* a signal stopped the run; a checkpoint was saved */
} dt_status;

/* The code's name, such as "DT_ERR_SHAPE"; never NULL, never to be freed. */
DT_API const char *dt_status_name(dt_status status);

/* The library's version, "major.minor.patch". */
DT_API const char *dt_version(void);

/* Takes `bytes` bytes of text; a status other than DT_OK ends the output and is returned. */
typedef dt_status (*dt_sink)(void *user, const char *text, size_t bytes);

/* ---- context ------------------------------------------------------------------------------ */

typedef struct dt_ctx dt_ctx;
typedef struct dt_tensor dt_tensor;
typedef struct dt_tape dt_tape;

/* The host's memory. `allocate` returns `bytes` bytes aligned to `alignment` (a power of two), or
 * NULL; `release` gets the same pointer and size back. */
typedef struct dt_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *pointer, size_t bytes);
    void *user;
} dt_allocator;

/* Called with one line of text, without a newline: warnings and notes. NULL: nothing is said. */
typedef void (*dt_logger)(void *user, const char *line);

/* Instruction sets, as bits of cpu_mask. Those that the processor lacks are never used. */
#define DT_CPU_AVX2 ((uint64_t)1)        /* with FMA and F16C */
#define DT_CPU_AVX_VNNI ((uint64_t)2)    /* 256-bit VNNI */
#define DT_CPU_AVX512_VNNI ((uint64_t)4) /* with AVX-512 F, BW, DQ and VL */

typedef struct dt_ctx_options {
    dt_allocator allocator;  /* all zero: the C library's */
    uint64_t seed;           /* of every random stream; default 0 */
    int threads;             /* 0: as many as OpenMP would use */
    uint64_t cpu_mask;       /* DT_CPU_... that kernels may use; default all; 0: plain C */
    bool leave_blas_threads; /* default false: OpenBLAS is set to one thread for the process */
    dt_logger log;
    void *log_user;
} dt_ctx_options;

/* The defaults of dt_ctx_create. */
DT_API dt_ctx_options dt_ctx_defaults(void);

/* Makes a context. `options` NULL means the defaults. Errors: NOMEM, ARG (threads outside 0...1024,
 * half an allocator); with no context there is no message. */
DT_API dt_status dt_ctx_create(dt_ctx **out, const dt_ctx_options *options);

/* Gives the context up. Its memory goes back when the last tensor, tape or module made with it is
 * freed, so the order of frees does not matter. NULL is allowed. */
DT_API void dt_ctx_free(dt_ctx *ctx);

/* The message of the latest error on this context, "" if there was none. Lent; the next error
 * overwrites it. */
DT_API const char *dt_error(const dt_ctx *ctx);

/* The code that goes with dt_error(ctx): DT_OK if there was none. */
DT_API dt_status dt_error_status(const dt_ctx *ctx);

/* Records an error as the library does and returns `status`: for ops and layers of one's own. */
DT_API dt_status dt_fail(dt_ctx *ctx, dt_status status, const char *format, ...) DT_PRINTF(3, 4);

/* Memory of a context, in bytes, and how often its allocator was called. */
typedef struct dt_memory {
    size_t used;          /* in tensors and other live blocks */
    size_t peak;          /* the largest `used` since dt_memory_reset_peak */
    size_t held;          /* used, and free blocks kept for reuse */
    uint64_t allocations; /* calls of `allocate` so far */
} dt_memory;

/* What the context holds now. */
DT_API dt_memory dt_memory_of(const dt_ctx *ctx);

/* Starts measuring the peak anew. */
DT_API void dt_memory_reset_peak(dt_ctx *ctx);

/* Returns the free blocks that were kept for reuse to the allocator. */
DT_API void dt_memory_trim(dt_ctx *ctx);

/* Threads that the context's loops use, at least 1. Results do not depend on it. */
DT_API int dt_threads(const dt_ctx *ctx);

/* The kernels that the context computes with: "plain", "avx2", "avx-vnni" or "avx512-vnni", the
 * best that the processor has, cpu_mask allows and $DETENT_CPU does not lie below. NULL with an
 * error on the context: ARG ($DETENT_CPU is none of these), NOMEM. */
DT_API const char *dt_kernels_name(dt_ctx *ctx);

/* Restarts every random stream of the context from `seed`. */
DT_API void dt_seed(dt_ctx *ctx, uint64_t seed);

/* ---- tensors ------------------------------------------------------------------------------ */

#define DT_MAX_RANK 8

typedef enum dt_dtype {
    DT_F32 = 0,
    DT_F64 = 1, /* so that gradients can be checked; quantization refuses it */
    DT_I32 = 2,
    DT_I64 = 3,
    DT_U8 = 4,
    DT_I8 = 5,
    DT_BOOL = 6,
    DT_I4 = 7 /* opaque: packed, no views, no ops */
} dt_dtype;

/* "f32", "f64", "i32", ...; "?" for no dtype. */
DT_API const char *dt_dtype_name(dt_dtype dtype);

/* Bytes of one element; 0 for DT_I4, whose elements are not addressable. */
DT_API size_t dt_dtype_size(dt_dtype dtype);

/* A new contiguous tensor of zeros, row-major. `dims` has `rank` extents, each >= 0; rank 0 is a
 * scalar. Errors: ARG (rank outside 0...DT_MAX_RANK, negative extent, size overflow), NOMEM. */
DT_API dt_status dt_tensor_create(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                  dt_tensor **out);

/* The same, filled with a copy of `data`: row-major, as many elements as the product of dims. */
DT_API dt_status dt_tensor_from(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                const void *data, dt_tensor **out);

/* A new handle on the elements start, start+1, ... start+count-1 of dimension `dim`, sharing the
 * storage of `x`. Errors: ARG, NOMEM; STATE on a wrapper or an opaque tensor. */
DT_API dt_status dt_tensor_narrow(dt_tensor *x, int dim, int64_t start, int64_t count,
                                  dt_tensor **out);

/* Gives up one's handle; the storage lives as long as any view or tape needs it. NULL allowed. */
DT_API void dt_tensor_free(dt_tensor *x);

DT_API dt_dtype dt_dtype_of(const dt_tensor *x);       /* element type */
DT_API int dt_rank(const dt_tensor *x);                /* number of dimensions */
DT_API int64_t dt_dim(const dt_tensor *x, int dim);    /* extent; negative counts from the end */
DT_API int64_t dt_stride(const dt_tensor *x, int dim); /* step in elements, same counting */
DT_API int64_t dt_count(const dt_tensor *x);           /* number of elements */
DT_API bool dt_is_contiguous(const dt_tensor *x);      /* row-major without gaps */
DT_API uint64_t dt_tensor_version(const dt_tensor *x); /* raised by every write */
DT_API dt_ctx *dt_ctx_of(const dt_tensor *x);          /* the context it was made with */

/* The first element, to read. NULL with STATE on a wrapper (name dt_inner instead), on an opaque or
 * a dropped tensor. A tensor without elements may give NULL without an error. */
DT_API const void *dt_data(const dt_tensor *x);

/* The same, to write: raises the storage's version. */
DT_API void *dt_data_mut(dt_tensor *x);

/* The one element of `x` as a double. NaN, with an error on the context, where there is not exactly
 * one element, or none to read. */
DT_API double dt_item(const dt_tensor *x);

/* Writes a line that describes `x` ("f32[256,784]", "fake_quant(int4 symmetric group 32, enabled)
 * f32[256,784]") into `text`, cut to `size` bytes. Returns the length that it wanted. */
DT_API size_t dt_describe(const dt_tensor *x, char *text, size_t size);

/* ---- grouped parameters --------------------------------------------------------------------
 *
 * The experts of a layer are one tensor [count, dims...] that stands for `count` experts of shape
 * [dims...]: one storage, one gradient, one optimizer state, quantized in one call, whatever the
 * number of experts. Aliases, dt_detach, prepare and convert keep the mark. Ops that read element
 * by element or whole (dt_mul, dt_sum, dt_matmul) take a grouped tensor as any other; those that
 * would mix its experts or see one matrix in all of them (dt_reshape, dt_flatten, dt_transpose,
 * dt_permute, dt_slice, dt_concat, dt_pad, dt_upsample_nearest, dt_linear and its kin, dt_conv2d
 * and its kin, dt_embedding, and dt_tensor_narrow) refuse it with STATE. dt_grouped_linear (ops.h)
 * multiplies each row by the expert that it is routed to; dt_grouped_expert gives one of them to
 * look at, to fill, to compute with:
 *
 *     dt_tensor *w = ...;                         [8, out, in], dt_set_grouped, requires a gradient
 *     dt_tensor *third = dt_grouped_expert(w, 3); [out, in], shares the storage of w
 *     y = dt_linear(t, x, third, NULL);           the gradient goes to rows of dt_grad(w)
 *     dt_tensor_free(third); */

/* Marks `x` as grouped: its first dimension counts experts. Once marked, always so. Errors: SHAPE
 * (rank below 2, no expert, strided), STATE (a tensor of a tape, a wrapper, a converted
 * parameter). */
DT_API dt_status dt_set_grouped(dt_tensor *x);

/* Whether `x` is marked. */
DT_API bool dt_is_grouped(const dt_tensor *x);

/* How many experts; 0 where `x` is not grouped. */
DT_API int64_t dt_grouped_count(const dt_tensor *x);

/* Expert i of `w`, [dims...], as a handle that the caller frees. It shares the storage, and keeps
 * it and `w` alive. It is what `w` is now: dense; a FakeQuantTensor, whose image has the bits of
 * those rows in the image of `w`; or packed. (Take experts anew after prepare and convert: those
 * from before still see the master.) It requires a gradient where `w` does, which
 * dt_set_requires_grad(w) alone changes, and has no slot of its own: what flows into it, however
 * often and on however many tapes, is added to its slice of the gradient of `w`, whose other slices
 * are then zero at first. dt_grad(expert) is a view on that slice, lent until dt_grad_clear(w) and
 * NULL while `w` has no gradient; dt_grad_clear(expert) fills it with zeros. An alias of an expert
 * has a slot of its own, as any alias. In-place ops on an expert write `w`, and the other way
 * round; codes of either are then stale. An expert is not grouped again, nor a parameter of a
 * module. Its memory is that of the context of `w`, so it is not for passes of several contexts
 * through one frozen model. NULL with the error on the context: ARG (no such expert), STATE (not
 * grouped, dropped, of a tape and requiring a gradient), NOMEM. */
DT_API dt_tensor *dt_grouped_expert(dt_tensor *w, int64_t i);

/* The axis of `w` that axis `axis` of an expert is, negative counting from the end: of experts [N,
 * out, in] 0 or -2 (out) gives 1, 1 or -1 (in) gives 2. For who divides a weight among devices. -1
 * with the error on the context: ARG, STATE (not grouped). */
DT_API int dt_grouped_shard_axis(const dt_tensor *w, int axis);

/* ---- gradients ---------------------------------------------------------------------------- */

/* Makes `x` a leaf that gradients reach, or stops it. Errors: DTYPE unless f32 or f64; STATE on a
 * tensor that a tape made, and on a converted parameter. */
DT_API dt_status dt_set_requires_grad(dt_tensor *x, bool on);
DT_API bool dt_requires_grad(const dt_tensor *x); /* set by hand, or because an input requires it */

/* The gradient of a leaf, lent until dt_grad_clear; NULL while there is none. */
DT_API dt_tensor *dt_grad(const dt_tensor *x);

/* Empties the gradient slot of `x`: the next backward's first contribution becomes the gradient.
 * Its memory waits in the pool, where the forward pass can use it. */
DT_API void dt_grad_clear(dt_tensor *x);

/* ---- tape --------------------------------------------------------------------------------- */

/* A tape records one forward pass and owns every tensor that its ops return. Errors: NOMEM. */
DT_API dt_status dt_tape_create(dt_ctx *ctx, dt_tape **out);

/* Frees the tape and every tensor that it lent. NULL is allowed. */
DT_API void dt_tape_free(dt_tape *t);

/* Drops everything recorded, every tensor lent, and the error: ready for the next forward pass.
 * Memory stays in the context's pool, so a step of a known shape allocates nothing. */
DT_API void dt_tape_reset(dt_tape *t);

/* The error that stopped the tape, or DT_OK. The message is dt_error(ctx). */
DT_API dt_status dt_tape_status(const dt_tape *t);

/* Leaves `status` on the tape with a message, as a failing op does; the first error stands.
 * Returns the tape's status. */
DT_API dt_status dt_tape_fail(dt_tape *t, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* The context of a tape. */
DT_API dt_ctx *dt_tape_ctx(const dt_tape *t);

/* Turns recording off (true) or on again (false) and returns what it was: evaluation keeps nothing
 * for a backward pass. */
DT_API bool dt_no_grad(dt_tape *t, bool on);

/* Watches every result (true) or not: the first op that gives NaN or infinity stops the tape with
 * NUMERIC naming it. Costs a pass over every result. Returns what it was. */
DT_API bool dt_tape_watch(dt_tape *t, bool on);

/* Runs the recorded pass backward from `loss`, adding d loss / d leaf to the gradient of every leaf
 * that requires one. `dloss` NULL means 1 and wants a `loss` of one element; otherwise it has the
 * shape of `loss`. What the tape kept is freed on the way. Errors: the tape's own error; ARG (loss
 * is not of this tape, shape), STATE (a second backward, a tensor written since it was
 * recorded). */
DT_API dt_status dt_backward(dt_tape *t, dt_tensor *loss, const dt_tensor *dloss);

/* Says that `x`, lent by `t`, is not needed any more: its memory is reused as soon as backward does
 * not need it. Reading it afterwards is STATE. */
DT_API void dt_drop(dt_tape *t, dt_tensor *x);

/* Moves `x` from the scope of the running module to its caller's. Returns x. */
DT_API dt_tensor *dt_keep(dt_tape *t, dt_tensor *x);

/* The same values, and no gradient through it; a wrapper stays a wrapper. Lent by the tape. */
DT_API dt_tensor *dt_detach(dt_tape *t, dt_tensor *x);

/* A new leaf on the same storage with a gradient slot of its own; a wrapper stays a wrapper. The
 * caller frees it. Errors: NOMEM, STATE. */
DT_API dt_status dt_alias(dt_tensor *x, dt_tensor **out);

/* ---- random numbers ----------------------------------------------------------------------- */

/* Fills `x` (f32 or f64) with uniform numbers of [low, high). The k-th element depends on the
 * context's seed and on the draws before, not on threads. Errors: DTYPE, ARG, STATE. */
DT_API dt_status dt_fill_uniform(dt_tensor *x, double low, double high);

/* Fills `x` (f32 or f64) with normal numbers. Errors as above. */
DT_API dt_status dt_fill_normal(dt_tensor *x, double mean, double deviation);

/* Sets every element (any numeric dtype) to `value`, rounded to the dtype. */
DT_API dt_status dt_fill(dt_tensor *x, double value);

#ifdef __cplusplus
}
#endif
#endif
