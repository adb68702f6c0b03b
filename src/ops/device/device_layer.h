/* The integers of a device layer, which its op computes with and an exporter writes. */
#ifndef DT__OPS_DEVICE_LAYER_H
#define DT__OPS_DEVICE_LAYER_H

#include "autograd/coded.h"
#include "kernels/device_loops.h"

/* The operands of linear and the convolutions. */
typedef struct dt__device_operands {
    dt__coding_range x, y;
    const dt__codes *w; /* panels, symmetric, one scale per row */
    const float *bias;  /* [rows], or NULL */
    bool one_scale;     /* linear: the product of scales is rounded to f32 */
    int activation;     /* DT_ACT_... */
} dt__device_operands;

typedef struct dt__device_layer {
    int64_t rows, columns; /* number of outputs, and of weights per output */
    int8_t *codes;         /* [rows][columns]; columns in the order of numerics §1 */
    float *scale;          /* [rows] */
    int32_t *bias;         /* [rows], in units of x.scale * scale; 0 without a bias */
    int32_t *offset;    /* [rows]: the bias minus the sum of codes times (zero point + 128) of x */
    dt__multiplier *by; /* [rows] */
    int least, most;    /* clamps of the codes of y */
    int64_t widened;    /* outputs whose weight got a larger scale than the operand's */
} dt__device_layer;

/* Computes the integers. If the bias of an output does not fit beside its largest sum, its weight
 * gets a larger scale (numerics §8), and `codes` and `scale` are the new ones. Errors: NUMERIC (a
 * sum or a multiplier could exceed its range for some x), UNSUPPORTED (a weight with groups or zero
 * points), NOMEM; `why` says which output. dt__device_layer_free frees the integers, also after an
 * error. */
#define DT__DEVICE_WHY 160
dt_status dt__device_layer_make(dt_ctx *ctx, const dt__device_operands *in, dt__device_layer *out,
                                char why[DT__DEVICE_WHY]);
/* The same; if sums or factors do not fit the scale of in->y, first replaces in->y by a coarser
 * range with which they do (numerics §8). */
dt_status dt__device_layer_fit(dt_ctx *ctx, dt__device_operands *in, dt__device_layer *out,
                               char why[DT__DEVICE_WHY]);
void dt__device_layer_free(dt_ctx *ctx, dt__device_layer *layer);

/* The scale of a weight with which a bias, in units of the scales of x and weight, has 2^30 steps,
 * so that a sum of up to 32768 products fits beside it; at least the scale with which the unit is a
 * normal number. */
double dt__bias_scale(float bias, float x_scale);
/* Codes for a larger scale: codes[k] = rne(codes[k] by), where `by` is old scale / new scale. */
void dt__rescale_codes(int8_t *codes, int64_t n, double by);

/* The code of a real value, as device_quantize computes it; infinities get the codes of the
 * ends. */
int dt__device_code(double value, dt__coding_range r);

/* The same range with a larger scale. */
dt__coding_range dt__device_coarser(dt__coding_range r, double scale);

/* The clamps of an activation (DT_ACT_NONE, RELU, RELU6) as codes of a range. */
void dt__device_clamps(int activation, dt__coding_range y, int *least, int *most);

/* False if the scale of y is so small that the factor of y would not be below 1. */
bool dt__device_add_make(float a, float b, float y, dt__device_add *out);

/* The least scale of y with which LiteRT's kernels, which add and multiply in 16 bits, compute add
 * and mul. */
double dt__device_add_scale(float a, float b);
double dt__device_mul_scale(float a, float b);
/* The least scale of y with which sums of prelu stay in int32. */
double dt__device_prelu_scale(float a, float slope);

/* mul: requantize((a - z_a) (b - z_b), by) + z_y. False if that could exceed int32. */
bool dt__device_mul_make(float a, float b, float y, dt__multiplier *by);

/* prelu: requantize(a - z_a, above) or requantize((a - z_a) (slope - z_slope), below), + z_y. */
void dt__device_prelu_make(float a, float slope, float y, dt__device_prelu *out);

/* The factor of a sum of n codes: the multiplier of a / y, divided by n. */
dt__multiplier dt__device_mean_make(float a, float y, int64_t n);

/* softmax: its result has scale 1/256 and zero point -128. `scale` is that of x, times beta if the
 * softmax has one. False if it is below 2^-26. */
bool dt__device_softmax_make(double scale, dt__device_softmax *out);
#define DT__DEVICE_SOFTMAX_MOST 511 /* elements: the sum of their exponentials stays below 2^28 */

#endif
