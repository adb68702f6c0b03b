/* device.h: networks of integers only, as microcontrollers compute them.
 *
 * A coded tensor is a result of the ops below: int8 codes with one scale and one zero point for the
 * whole tensor. Its value is (code - zero_point) * scale; float ops read it, and gradients are
 * those of the value. The ops take coded tensors and give coded tensors by the integer arithmetic
 * of docs/numerics.md §8, which is that of CMSIS-NN and TensorFlow Lite Micro, bit for bit. With a
 * plain tensor in place of a coded one they compute in floats, without codes.
 *
 * dt_prepare with a preset `device-...` makes a model of such ops; programs need not call them. */
#ifndef DETENT_EXPERIMENTAL_DEVICE_H
#define DETENT_EXPERIMENTAL_DEVICE_H

#include <detent/experimental/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The quantization of a result: it belongs to the tensor and is shared by all its readers. */
typedef struct dt_device_range {
    dt_tensor *scale;      /* f32 [1], positive */
    dt_tensor *zero_point; /* i8 [1] */
    /* f32 [2]: the ends of the range from which scale and zero point were computed, if they are
     * learned: backward then gives them gradients [LSQ, both ends]. NULL: they are not learned */
    dt_tensor *ends;
} dt_device_range;

/* Whether x is a coded tensor. */
DT_API bool dt_is_coded(const dt_tensor *x);
/* Scale and zero point of a coded tensor; each pointer may be NULL. STATE if x is not coded. */
DT_API dt_status dt_coded_range(const dt_tensor *x, float *scale, int *zero_point);
/* Copies the codes of a coded tensor, x->count of them, in the order of its elements. STATE if x is
 * not coded. */
DT_API dt_status dt_coded_read(const dt_tensor *x, int8_t *codes);

/* Every sum fits int32, whatever the input: if a bias or a multiplier would not fit, the weight of
 * an output, or the result, gets a larger scale than the given one (docs/numerics.md §8). Errors of
 * every function below, on the tape, besides those of ops.h: NUMERIC for scales and biases that are
 * not finite. `activation` is DT_ACT_NONE, DT_ACT_RELU or DT_ACT_RELU6, a clamp of the result's
 * codes. */

/* The codes of x: clamp(round(x / scale) + zero_point, -128, 127), halves away from zero. */
DT_API dt_tensor *dt_device_quantize(dt_tape *t, dt_tensor *x, const dt_device_range *range);
/* The value of a coded tensor, as a plain tensor. */
DT_API dt_tensor *dt_device_dequantize(dt_tape *t, dt_tensor *x);

typedef struct dt_device_linear_options {
    int activation; /* DT_ACT_... */
    /* the weight has a single scale, not one per output: the product of scales is then rounded to
     * f32, as in TensorFlow Lite */
    bool one_scale;
} dt_device_linear_options;

/* dt_linear of x [N, in]: weight [out, in] quantized, symmetric, by channel or with one scale. */
DT_API dt_tensor *dt_device_linear(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                   const dt_device_range *range,
                                   const dt_device_linear_options *options);

typedef struct dt_device_conv_options {
    dt_conv_options conv;
    int activation; /* DT_ACT_... */
} dt_device_conv_options;

/* dt_conv2d and dt_conv_transpose2d; with x and weight of rank 3 dt_conv1d and
 * dt_conv_transpose1d. Padding is the code of 0. */
DT_API dt_tensor *dt_device_conv2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                                   const dt_device_range *range,
                                   const dt_device_conv_options *options);
/* Likewise, as dt_conv_transpose2d. */
DT_API dt_tensor *dt_device_conv_transpose2d(dt_tape *t, dt_tensor *x, dt_tensor *weight,
                                             dt_tensor *bias, const dt_device_range *range,
                                             const dt_device_conv_options *options);

typedef struct dt_device_zip_options {
    int activation; /* DT_ACT_... */
} dt_device_zip_options;

/* a + b, a - b and a * b, which broadcast. */
DT_API dt_tensor *dt_device_add(dt_tape *t, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options);
/* Likewise, a * b. */
DT_API dt_tensor *dt_device_mul(dt_tape *t, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options);

/* Likewise, a - b. */
DT_API dt_tensor *dt_device_sub(dt_tape *t, dt_tensor *a, dt_tensor *b,
                                const dt_device_range *range, const dt_device_zip_options *options);

/* dt_prelu: a where a >= 0, else a * slope; the slopes [C, 1, ...] or [1] broadcast over a. */
DT_API dt_tensor *dt_device_prelu(dt_tape *t, dt_tensor *a, dt_tensor *slope,
                                  const dt_device_range *range);

/* Functions of one element; elu has alpha 1. */
enum {
    DT_TABLE_SIGMOID, /* results have scale 1/256 and zero point -128 */
    DT_TABLE_TANH,    /* 1/128 and 0 */
    DT_TABLE_ELU,
    DT_TABLE_GELU,
    DT_TABLE_GELU_TANH,
    DT_TABLE_LEAKY_RELU,
    DT_TABLE_HARDSWISH,
    DT_TABLE_RELU, /* used only where no preceding layer can clamp its own codes */
    DT_TABLE_RELU6,
};

typedef struct dt_device_table_options {
    int function; /* DT_TABLE_... */
    double slope; /* for leaky_relu, -256 ... 256 */
} dt_device_table_options;

/* y = f(x), with the codes of LiteRT's reference kernels. range must be NULL for sigmoid and tanh,
 * which have fixed ranges; otherwise ARG. */
DT_API dt_tensor *dt_device_table(dt_tape *t, dt_tensor *x, const dt_device_range *range,
                                  const dt_device_table_options *options);
/* dt_mean over 1 to 65536 elements; ARG for other numbers. */
DT_API dt_tensor *dt_device_mean(dt_tape *t, dt_tensor *x, const dt_device_range *range,
                                 const dt_reduce_options *options);

/* The results of the ops below, except softmax, have the scale and zero point of the operand. */

/* dt_max_pool2d. */
DT_API dt_tensor *dt_device_max_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options);
/* dt_avg_pool2d; padding that counts has the zero point. */
DT_API dt_tensor *dt_device_avg_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *options);
/* Softmax over the last dimension; scale 1/256, zero point -128. ARG for more than 511 elements. */
DT_API dt_tensor *dt_device_softmax(dt_tape *t, dt_tensor *x);
/* dt_pad with a constant, which becomes the code that dt_device_quantize computes for it. */
DT_API dt_tensor *dt_device_pad(dt_tape *t, dt_tensor *x, const dt_pad_options *options);
/* dt_slice, as a copy. */
DT_API dt_tensor *dt_device_slice(dt_tape *t, dt_tensor *x, const dt_slice_options *options);
/* dt_concat of 2 to DT_MAX_IN tensors with equal scale and zero point; ARG if they differ. */
DT_API dt_tensor *dt_device_concat(dt_tape *t, dt_tensor *const *x, int n, int64_t dim);
/* dt_reshape. */
DT_API dt_tensor *dt_device_reshape(dt_tape *t, dt_tensor *x, int rank, const int64_t *dims);
/* dt_permute: dimension i of the result is dimension dims[i] of x. */
DT_API dt_tensor *dt_device_permute(dt_tape *t, dt_tensor *x, const int64_t *dims);
/* dt_upsample_nearest: planes of x [N, C, H, W] resampled to height x width. */
DT_API dt_tensor *dt_device_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height,
                                             int64_t width);
/* dt_dropout, for training: a dropped element becomes the zero point, and the scale is divided by 1
 * - p. */
DT_API dt_tensor *dt_device_dropout(dt_tape *t, dt_tensor *x, double p);

#ifdef __cplusplus
}
#endif
#endif
