/* The integers of a device layer: what its op computes with and an exporter writes. */
#ifndef DT__OPS_DEVICE_LAYER_H
#define DT__OPS_DEVICE_LAYER_H

#include "autograd/codes.h"
#include "kernels/requantize.h"

/* Scale and zero point of a coded tensor. */
typedef struct dt__coding_range {
    float scale;
    int zero;
} dt__coding_range;

/* Of linear and the convolutions. */
typedef struct dt__device_operands {
    dt__coding_range x, y;
    const dt__codes *w;   /* panels, symmetric, one scale a row */
    const float *bias;    /* [rows], or NULL */
    bool linear;          /* with one weight scale the product of scales is rounded to f32 */
    int activation;       /* DT_ACT_... */
    const char *name;     /* for messages */
} dt__device_operands;

typedef struct dt__device_layer {
    int64_t rows, columns; /* outputs, and weights of each */
    int8_t *codes;         /* [rows][columns]; columns in the order of numerics §1 */
    float *scale;          /* [rows]; all equal where the weight has one scale */
    bool one_scale;
    int32_t *bias;         /* [rows], of scale x.scale * scale; 0 without a bias */
    int32_t *sum;          /* [rows]: of the codes */
    dt__multiplier *by;    /* [rows] */
    int least, most;       /* codes of y */
} dt__device_layer;

/* Computes them. Errors: NUMERIC (a bias, a sum or a multiplier that could leave its range,
 * whatever x is; the message says which output), UNSUPPORTED (a weight with groups or zero points),
 * NOMEM. Free with dt__device_layer_free, also after an error. */
dt_status dt__device_layer_make(dt_ctx *ctx, const dt__device_operands *in, dt__device_layer *out);
void dt__device_layer_free(dt_ctx *ctx, dt__device_layer *layer);

/* The clamps of an activation (DT_ACT_NONE, RELU, RELU6) as codes of a range. */
void dt__device_clamps(int activation, dt__coding_range y, int *least, int *most);

/* add: requantize(requantize((a - z_a) << 20, a) + requantize((b - z_b) << 20, b), y) + z_y. */
typedef struct dt__device_add {
    dt__multiplier a, b, y;
} dt__device_add;
/* False where the scale of y is too small: the factor of y would not be below 1. */
bool dt__device_add_make(float a, float b, float y, dt__device_add *out);

/* mul: requantize((a - z_a) (b - z_b), by) + z_y. False where that could leave int32. */
bool dt__device_mul_make(float a, float b, float y, dt__multiplier *by);

/* softmax of codes of this scale; scale 1/256 and zero point -128 of the result. */
typedef struct dt__device_softmax {
    dt__multiplier by; /* shift at least 0 */
    int32_t least;     /* of x - max; below it the result is -128 */
} dt__device_softmax;
dt__device_softmax dt__device_softmax_make(float scale);
#define DT__DEVICE_SOFTMAX_MOST 511 /* elements: their exponentials stay below 2^28 */

#endif
