/* DepthToSpace and SpaceToDepth, as a permutation between two reshapes, and CumSum, as a product
 * with a triangular matrix of ones. */
#include "io/onnx/onnx.h"

/* Channels become blocks of b * b pixels. DCR: the position in the block varies slower than the
 * channel; CRD: faster. */
dt_status dt__onnx_depth_to_space(dt__onnx *g)
{
    static const int dcr[] = { 0, 3, 4, 1, 5, 2 }, crd[] = { 0, 1, 4, 2, 5, 3 };
    dt__onnx_layer *x;
    const int64_t b = dt__onnx_int_of(g->node, "blocksize", 0);
    const bool before = dt__onnx_says(g, "mode", "DCR", "DCR");
    DT__TRY(dt__onnx_image(g, 0, &x));
    const int64_t *n = x->shape.dims;
    if (x->shape.rank != 3 || b < 1 || b > INT16_MAX || n[0] % (b * b) != 0) {
        return dt__onnx_refuse(g, "blocksize is %lld, whose square does not divide the channels",
                               (long long)b);
    }
    const dt_shape result = { 3, { n[0] / (b * b), n[1] * b, n[2] * b } };
    dt_shape parts = { 5, { b, b, result.dims[0], n[1], n[2] } };
    if (!before) parts = (dt_shape){ 5, { result.dims[0], b, b, n[1], n[2] } };
    DT__TRY(dt__onnx_reshaped(g, x, &parts, &x));
    DT__TRY(dt__onnx_permuted(g, x, before ? dcr : crd, &x));
    DT__TRY(dt__onnx_reshaped(g, x, &result, &x));
    return dt__onnx_image_result(g, 0, x);
}

dt_status dt__onnx_space_to_depth(dt__onnx *g)
{
    static const int dcr[] = { 0, 3, 5, 1, 2, 4 }, crd[] = { 0, 1, 3, 5, 2, 4 };
    dt__onnx_layer *x;
    const int64_t b = dt__onnx_int_of(g->node, "blocksize", 0);
    DT__TRY(dt__onnx_image(g, 0, &x));
    const int64_t *n = x->shape.dims;
    if (x->shape.rank != 3 || b < 1 || b > INT16_MAX || n[1] % b != 0 || n[2] % b != 0) {
        return dt__onnx_refuse(g, "blocksize is %lld, which does not divide the image",
                               (long long)b);
    }
    const dt_shape parts = { 5, { n[0], n[1] / b, b, n[2] / b, b } };
    const dt_shape result = { 3, { n[0] * b * b, n[1] / b, n[2] / b } };
    DT__TRY(dt__onnx_reshaped(g, x, &parts, &x));
    DT__TRY(dt__onnx_permuted(g, x, dt__onnx_says(g, "mode", "DCR", "DCR") ? dcr : crd, &x));
    DT__TRY(dt__onnx_reshaped(g, x, &result, &x));
    return dt__onnx_image_result(g, 0, x);
}

#define MOST_SUMMED 2048 /* elements along the axis */

/* y(o) is the sum of x(i) for i <= o; if exclusive, i < o; if reversed, from the end. */
dt_status dt__onnx_cumulative(dt__onnx *g)
{
    dt__onnx_layer *x;
    dt_ints axes;
    int axis;
    const bool exclusive = dt__onnx_int_of(g->node, "exclusive", 0) != 0;
    const bool reverse = dt__onnx_int_of(g->node, "reverse", 0) != 0;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 1), "the axis", &axes));
    if (axes.n != 1) return dt__onnx_refuse(g, "it is along %d axes; expected one", axes.n);
    DT__TRY(dt__onnx_axis(g, axes.v[0], x->shape.rank + 1, &axis));
    if (axis == 0) return dt__onnx_refuse(g, "it is along the batch dimension; expected another");
    const int64_t n = x->shape.dims[axis - 1];
    if (n > MOST_SUMMED) return dt__onnx_refuse(g, "it is over more than %d elements", MOST_SUMMED);
    float *weight = dt__onnx_memory(g, n * n, sizeof *weight);
    if (weight == NULL) return DT_ERR_NOMEM;
    for (int64_t o = 0; o < n; o++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t ahead = reverse ? i - o : o - i;
            weight[o * n + i] = ahead > 0 || (ahead == 0 && !exclusive);
        }
    }
    DT__TRY(dt__onnx_mixed(g, x, axis, n, weight, &x));
    dt__onnx_result(g, 0, x);
    return DT_OK;
}
