/* Translates operators of TFLite with windows and weights to ONNX nodes. */
#include "io/tflite/lite_forms.h"

#include <string.h>

enum { SAME, VALID };

/* The attributes of a window: padding, strides [height, width]. */
static void put_window(dt__lite_nodes *b, int64_t padding, const int64_t stride[2])
{
    if (padding != SAME && padding != VALID) {
        dt__form_refuse(b, "the padding %lld is not known", (long long)padding);
    }
    dt__form_word(b, "auto_pad", padding == SAME ? "SAME_UPPER" : "VALID");
    dt__form_ints(b, "strides", 2, stride);
}

/* Options have width before height. */
static bool sizes_of(dt__lite_nodes *b, int width, int64_t out[2])
{
    enum { DILATION = 4 }; /* first index of dilations; 1 if absent */
    for (int i = 0; i < 2; i++) {
        out[i] = b->op->option[width + 1 - i];
        if (width >= DILATION && out[i] == 0) out[i] = 1;
    }
    if (out[0] < 1 || out[1] < 1) dt__form_refuse(b, "a stride, kernel or dilation below 1");
    return b->status == DT_OK;
}

/* Makes a product of x, its weight, and a bias if there is one. */
static const char *product(dt__lite_nodes *b, const char *type, const char *x, const char *w,
                           int bias)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, bias);
    if (t == NULL) return DT__LITE_NODE(b, type, x, w);
    if (t->type == DT__VLITE_I32 && t->scales == 0) dt__form_refuse(b, "its bias has no scale");
    return DT__LITE_NODE(b, type, x, w, dt__form_in(b, bias));
}

static const dt__vlite_tensor *weight_of(dt__lite_nodes *b, int rank)
{
    const dt__vlite_tensor *w = dt__form_tensor(b, 1);
    if (w != NULL && w->rank == rank && w->constant) return w;
    dt__form_refuse(b, "its weight must be constant, of %d dimensions", rank);
    return NULL;
}

/* CONV_2D has weights [out, height, width, in], DEPTHWISE_CONV_2D [1, height, width, out]. */
dt_status dt__form_conv(dt__lite_nodes *b)
{
    const bool deep = b->op->code == DT__VLITE_DEPTHWISE_CONV_2D;
    const dt__vlite_tensor *x = dt__form_tensor(b, 0), *w = weight_of(b, 4);
    const int64_t *o = b->op->option, order[] = { deep ? 3 : 0, deep ? 0 : 3, 1, 2 };
    int64_t stride[2], dilation[2];
    if (!sizes_of(b, 1, stride) || !sizes_of(b, deep ? 5 : 4, dilation)) return b->status;
    if (x == NULL || x->rank != 4 || x->dims[3] < 1 || w->dims[3] < 1 ||
        (deep ? w->dims[0] != 1 : x->dims[3] % w->dims[3] != 0)) {
        return dt__form_refuse(b, "its weight does not fit its input");
    }
    const int64_t *block = dt__form_block(b, 0);
    const bool once = stride[0] == 1 && stride[1] == 1 && dilation[0] == 1 && dilation[1] == 1;
    if (block != NULL && (!once || o[0] != VALID)) {
        return dt__form_refuse(
            b, "it reads parts of an image with padding, strides or dilation, which is not read");
    }
    if (block != NULL) memcpy(dilation, block, sizeof dilation);
    const char *first = dt__form_channels_first(b, dt__form_in(b, 0));
    const char *y = product(b, "Conv", first, dt__form_turned(b, dt__form_in(b, 1), 4, order), 2);
    put_window(b, o[0], stride);
    dt__form_ints(b, "dilations", 2, dilation);
    dt__form_int(b, "group", deep ? x->dims[3] : x->dims[3] / w->dims[3]);
    if (block != NULL) dt__form_set_block(b, block);
    return dt__form_set_activated(b, o[deep ? 4 : 3], dt__form_channels_last(b, y));
}

/* The weight is [out, height, width, in]; the result has the extents that the file declares. */
dt_status dt__form_transposed_conv(dt__lite_nodes *b)
{
    const dt__vlite_tensor *x = dt__form_tensor(b, 2), *w = weight_of(b, 4);
    const dt__vlite_tensor *y = dt__form_out(b, 0);
    int64_t stride[2], pads[4], more[2];
    if (!sizes_of(b, 1, stride)) return b->status;
    if (x == NULL || y == NULL || x->rank != 4 || y->rank != 4) {
        return dt__form_refuse(b, "its input must be [batch, height, width, channels]");
    }
    for (int i = 0; i < 2; i++) {
        const int64_t all = (x->dims[1 + i] - 1) * stride[i] + w->dims[1 + i] - y->dims[1 + i];
        pads[i] = dt__max_i64(0, all) / 2;
        pads[2 + i] = dt__max_i64(0, all) - pads[i];
        more[i] = dt__max_i64(0, -all);
    }
    static const int64_t order[] = { 3, 0, 1, 2 };
    const char *first = dt__form_channels_first(b, dt__form_in(b, 2));
    const char *made =
        product(b, "ConvTranspose", first, dt__form_turned(b, dt__form_in(b, 1), 4, order), 3);
    dt__form_ints(b, "pads", 4, pads);
    dt__form_ints(b, "strides", 2, stride);
    dt__form_ints(b, "output_padding", 2, more);
    return dt__form_set_activated(b, b->op->option[3], dt__form_channels_last(b, made));
}

/* Multiplies the last dimension by a weight [out, in]; without keep_num_dims (option 2) the other
 * dimensions are merged to one. */
dt_status dt__form_linear(dt__lite_nodes *b)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, 0), *w = weight_of(b, 2);
    const dt__vlite_tensor *y = dt__form_out(b, 0);
    if (b->op->option[1] != 0) dt__form_refuse(b, "its weight is stored in another format");
    if (b->status != DT_OK || t == NULL || y == NULL) return b->status;
    const char *x = dt__form_in(b, 0), *made;
    if (y->rank == 2) {
        const dt__vlite_tensor row = { .rank = 2, .dims = { y->dims[0], w->dims[1] } };
        if (t->rank != 2) x = dt__form_shaped(b, x, &row);
        made = product(b, "Gemm", x, dt__form_in(b, 1), 2);
        dt__form_int(b, "transB", 1);
    } else {
        static const int64_t order[] = { 1, 0 };
        made = DT__LITE_NODE(b, "MatMul", x, dt__form_turned(b, dt__form_in(b, 1), 2, order));
        if (dt__form_tensor(b, 2) != NULL) made = DT__LITE_NODE(b, "Add", made, dt__form_in(b, 2));
    }
    return dt__form_set_activated(b, b->op->option[0], made);
}

/* Input i, with its last two dimensions swapped if `turn`. */
static const char *operand(dt__lite_nodes *b, int i, bool turn)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, i);
    const char *x = dt__form_in(b, i);
    int64_t order[DT__VLITE_RANK];
    if (!turn || t == NULL || t->rank < 2) return x;
    for (int k = 0; k < t->rank; k++) order[k] = k;
    order[t->rank - 2] = t->rank - 1;
    order[t->rank - 1] = t->rank - 2;
    return dt__form_turned(b, x, t->rank, order);
}

dt_status dt__form_matmul(dt__lite_nodes *b)
{
    const int64_t *o = b->op->option;
    const char *x = operand(b, 0, o[0] != 0);
    return dt__form_set(b, 0, DT__LITE_NODE(b, "MatMul", x, operand(b, 1, o[1] != 0)));
}

dt_status dt__form_pool(dt__lite_nodes *b)
{
    const bool maximum = b->op->code == DT__VLITE_MAX_POOL_2D;
    const int64_t *o = b->op->option;
    int64_t stride[2], kernel[2];
    if (!sizes_of(b, 1, stride) || !sizes_of(b, 3, kernel)) return b->status;
    const char *x = maximum && o[5] == 0 ? dt__form_codes_or_in(b, 0) : dt__form_in(b, 0);
    const char *y =
        DT__LITE_NODE(b, maximum ? "MaxPool" : "AveragePool", dt__form_channels_first(b, x));
    put_window(b, o[0], stride);
    dt__form_ints(b, "kernel_shape", 2, kernel);
    y = dt__form_channels_last(b, y);
    if (!maximum) y = dt__form_away(b, y, 0.25 / ((double)kernel[0] * (double)kernel[1]));
    return dt__form_set_activated(b, o[5], y);
}
