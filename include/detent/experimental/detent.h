/* experimental/detent.h: text for terminals and JSON, progress, products of bf16, grouped
 * parameters, the insides of tapes. What headers in experimental/ declare, any version may change
 * (detent.h). */
#ifndef DETENT_EXPERIMENTAL_DETENT_H
#define DETENT_EXPERIMENTAL_DETENT_H

#include <detent/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------- */

/* Replaces by '?' what a terminal interprets or does not show: control characters, also those
 * beyond ASCII, marks of direction, line separators, and each byte that is not UTF-8. For names
 * from untrusted files. */
DT_API void dt_text_clean(char *text);
/* Writes the next character of n bytes of text as it is in a string of JSON, with a NUL: escaped
 * where dt_text_clean would replace it, and U+FFFD in place of a byte that is not UTF-8. Returns
 * the number of bytes of text that it read; 0: n is 0. */
DT_API size_t dt_text_json(const char *text, size_t n, char out[DT_TEXT_JSON]);

/* A callback that receives `bytes` bytes of text. A status other than DT_OK ends the output; the
 * function that called it returns that status. */
typedef dt_status (*dt_sink)(void *user, const char *text, size_t bytes);

/* ---- context ------------------------------------------------------------------------------ */

/* Whether the latest error was caused by the machine, and not by arguments or a file: no memory, a
 * disk that is full or fails, too many open files. The same call may succeed later. */
DT_API bool dt_error_of_machine(const dt_ctx *ctx);

/* Sets the peak to the memory in use now. */
DT_API void dt_memory_reset_peak(dt_ctx *ctx);

/* How products and convolutions of f32 values are computed where a tape records (numerics.md,
 * "Products of bf16"). */
typedef enum dt_float_products {
    DT_PRODUCTS_F32, /* default */
    /* operands are rounded to bf16, sums are f32: about twice as fast if the processor has AVX-512
     * BF16, else slower */
    DT_PRODUCTS_BF16,
    /* the same with sums in the order of matrix tiles: several times as fast if the processor has
     * AMX-BF16, about as fast as F32 with AVX-512 BF16, else slower */
    DT_PRODUCTS_BF16_TILES,
} dt_float_products;

/* Sets this for later passes of the context. It does not affect tapes under dt_no_grad, products of
 * integers, attention, and grouped convolutions. Errors: ARG. */
DT_API dt_status dt_set_products(dt_ctx *ctx, int products);

/* The progress of work. */
typedef struct dt_work_state {
    double share;        /* share of the estimated time that has passed, 0 ... 1; it never falls */
    double seconds_left; /* an estimate, from the speed of similar work so far */
    bool guessed;        /* some of the remaining work is of a kind that was not timed yet */
} dt_work_state;
typedef void (*dt_work_told)(void *user, const dt_work_state *state);

/* From then on dt_onnx_import, dt_tflite_import, dt_weights_import, dt_model_save, dt_export,
 * dt_export_verify, dt_quantize_model and dt_quantize_tensors report their progress by calling
 * `told`, on the calling thread. All calls before the next dt_set_progress count as one work. NULL:
 * no reports. */
DT_API void dt_set_progress(dt_ctx *ctx, dt_work_told told, void *user);

/* Announces that a file of about this many bytes will be saved as part of the same work, so that
 * its time is included in the estimate. */
DT_API void dt_expect_save(dt_ctx *ctx, double bytes);

/* ---- tensors ------------------------------------------------------------------------------ */

/* Bytes of one element; 0 for DT_I4, whose elements are not addressable. */
DT_API size_t dt_dtype_size(dt_dtype dtype);
DT_API uint64_t dt_tensor_version(const dt_tensor *x); /* grows with every write */

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
 * still refer to the master; create new ones.)
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

/* ---- tape --------------------------------------------------------------------------------- */

/* Sets the tape's error and message, as a failing op does. A tape that has an error keeps it.
 * Returns the tape's status. */
DT_API dt_status dt_tape_fail(dt_tape *t, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* The context of a tape. */
DT_API dt_ctx *dt_tape_ctx(const dt_tape *t);

/* Enables (true) or disables a check of every result: the first op that computes NaN or infinity
 * stops the tape with NUMERIC and names the op. Reads every result once more. Returns the previous
 * setting. */
DT_API bool dt_tape_watch(dt_tape *t, bool on);

/* Declares that `x`, lent by `t`, is not read any more: its memory is reused as soon as backward
 * does not need it. Reading it afterwards is STATE. */
DT_API void dt_drop(dt_tape *t, dt_tensor *x);

/* Moves `x` from the scope of the running module to its caller's, so that it outlives the module's
 * forward. Returns x. */
DT_API dt_tensor *dt_keep(dt_tape *t, dt_tensor *x);

/* A new leaf on the same storage with a gradient slot of its own; a FakeQuantTensor remains one.
 * The caller frees it. Errors: NOMEM, STATE. */
DT_API dt_status dt_alias(dt_tensor *x, dt_tensor **out);

/* ---- random numbers ----------------------------------------------------------------------- */

/* Fills `x` (f32 or f64) with uniform numbers in [low, high). Element k depends on the context's
 * seed and on earlier draws, not on threads. Errors: DTYPE, ARG, STATE. */
DT_API dt_status dt_fill_uniform(dt_tensor *x, double low, double high);

#ifdef __cplusplus
}
#endif
#endif
