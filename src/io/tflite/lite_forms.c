/* Translates operators of TFLite to ONNX nodes: elementwise functions, rearrangements,
 * reductions. */
#include "io/tflite/lite_forms.h"

#define LIST (2 * DT__VLITE_RANK)

static int rank_of(dt__lite_nodes *b, int i)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, i);
    if (t == NULL) dt__form_refuse(b, "its input %d is left out", i);
    return t == NULL ? 0 : t->rank;
}

/* ---- elements -------------------------------------------------------------------------------- */

static const char *named(const dt__lite_nodes *b) { return dt__lite_form_of(b->op->code)->name; }

static dt_status one(dt__lite_nodes *b)
{
    return dt__form_set(b, 0, DT__LITE_NODE(b, named(b), dt__form_in(b, 0)));
}

/* For operators with two inputs whose first option is an activation, or that have no options. */
static dt_status two(dt__lite_nodes *b)
{
    const char *y = DT__LITE_NODE(b, named(b), dt__form_in(b, 0), dt__form_in(b, 1));
    return dt__form_set_activated(b, b->op->option[0], y);
}

static dt_status three(dt__lite_nodes *b)
{
    return dt__form_set(
        b, 0, DT__LITE_NODE(b, named(b), dt__form_in(b, 0), dt__form_in(b, 1), dt__form_in(b, 2)));
}

static dt_status differ(dt__lite_nodes *b)
{
    const char *same = DT__LITE_NODE(b, "Equal", dt__form_in(b, 0), dt__form_in(b, 1));
    return dt__form_set(b, 0, DT__LITE_NODE(b, "Not", same));
}

static dt_status clamp(dt__lite_nodes *b)
{
    const double least = b->op->code == DT__VLITE_RELU_N1_TO_1 ? -1 : 0;
    const double most = b->op->code == DT__VLITE_RELU_0_TO_1 || least < 0 ? 1 : 6;
    return dt__form_set(b, 0,
                        DT__LITE_NODE(b, "Clip", dt__form_in(b, 0), dt__form_number(b, least),
                                      dt__form_number(b, most)));
}

static dt_status square(dt__lite_nodes *b)
{
    const char *x = dt__form_in(b, 0);
    return dt__form_set(b, 0, DT__LITE_NODE(b, "Mul", x, x));
}

static dt_status squared_difference(dt__lite_nodes *b)
{
    const char *d = DT__LITE_NODE(b, "Sub", dt__form_in(b, 0), dt__form_in(b, 1));
    return dt__form_set(b, 0, DT__LITE_NODE(b, "Mul", d, d));
}

static dt_status inverse_root(dt__lite_nodes *b)
{
    const char *root = DT__LITE_NODE(b, "Sqrt", dt__form_in(b, 0));
    return dt__form_set(b, 0, DT__LITE_NODE(b, "Reciprocal", root));
}

static dt_status leaky(dt__lite_nodes *b)
{
    const char *y = DT__LITE_NODE(b, "LeakyRelu", dt__form_in(b, 0));
    dt__form_float(b, "alpha", dt__form_real(b, 0));
    return dt__form_set(b, 0, y);
}

static dt_status gelu(dt__lite_nodes *b)
{
    const char *y = DT__LITE_NODE(b, "Gelu", dt__form_in(b, 0));
    dt__form_word(b, "approximate", b->op->option[0] != 0 ? "tanh" : "none");
    return dt__form_set(b, 0, y);
}

static dt_status softmax(dt__lite_nodes *b)
{
    const char *x = dt__form_in(b, 0);
    const double beta = b->op->code == DT__VLITE_LOG_SOFTMAX ? 1 : dt__form_real(b, 0);
    if (beta != 1) x = DT__LITE_NODE(b, "Mul", x, dt__form_number(b, beta));
    const char *y = DT__LITE_NODE(b, named(b), x);
    dt__form_int(b, "axis", -1);
    return dt__form_set(b, 0, y);
}

/* The result is the input, converted to another type: floats, bool, indices, or other codes. */
static dt_status convert(dt__lite_nodes *b)
{
    const char *x = dt__form_codes_or_in(b, 0);
    const dt__vlite_tensor *from = dt__form_tensor(b, 0), *to = dt__form_out(b, 0);
    if (b->op->code == DT__VLITE_CAST && from != NULL && to != NULL && from->type != to->type) {
        const bool number = from->type == DT__VLITE_BOOL && to->type == DT__VLITE_F32;
        const bool index = from->type == DT__VLITE_F32 && to->type == DT__VLITE_I32;
        if (!number && !index) {
            return dt__form_refuse(b,
                                   "from %s to %s; of computed values bool to float is read, and "
                                   "float to int32",
                                   dt__vlite_type_text(from->type), dt__vlite_type_text(to->type));
        }
        x = DT__LITE_NODE(b, "Cast", x);
        dt__form_int(b, "to", number ? DT__ONNX_FLOAT : DT__ONNX_I32);
    }
    return dt__form_set(b, 0, x);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* RESHAPE, SQUEEZE, EXPAND_DIMS: reshape to the extents that the file declares. */
static dt_status reshape(dt__lite_nodes *b)
{
    const char *x = dt__form_codes_or_in(b, 0);
    const dt__vlite_tensor *y = dt__form_out(b, 0), *to = dt__form_tensor(b, 1);
    if (y == NULL) return dt__form_refuse(b, "it has no result");
    for (int i = 0; b->op->code == DT__VLITE_RESHAPE && to != NULL && to->constant && i < y->rank;
         i++) {
        const bool fits = to->count == y->rank && to->type == DT__VLITE_I32 &&
                          (to->q[i] == -1 || to->q[i] == y->dims[i]);
        if (!fits) return dt__form_refuse(b, "its result is declared with other extents");
    }
    if (y->vague && b->op->code == DT__VLITE_RESHAPE && to != NULL) {
        return dt__form_set(b, 0, DT__LITE_NODE(b, "Reshape", x, dt__form_in(b, 1)));
    }
    return dt__form_set(b, 0, dt__form_shaped(b, x, y));
}

static dt_status transpose(dt__lite_nodes *b)
{
    int n;
    int64_t order[LIST];
    if (!dt__form_ints_of(b, 1, LIST, &n, order)) return b->status;
    return dt__form_set(b, 0, dt__form_turned(b, dt__form_codes_or_in(b, 0), n, order));
}

static dt_status concat(dt__lite_nodes *b)
{
    const char *in[DT__VLITE_IN];
    for (int i = 0; i < b->op->n_in; i++) in[i] = dt__form_in(b, i);
    const char *y = dt__form_node(b, "Concat", b->op->n_in, in);
    dt__form_int(b, "axis", (int32_t)b->op->option[0]);
    return dt__form_set_activated(b, b->op->option[1], y);
}

static dt_status pack(dt__lite_nodes *b)
{
    const char *in[DT__VLITE_IN];
    const int64_t axis = dt__form_axis(b, (int32_t)b->op->option[1], rank_of(b, 0) + 1);
    const char *along = dt__form_list(b, 1, &axis);
    for (int i = 0; i < b->op->n_in; i++) {
        in[i] = DT__LITE_NODE(b, "Unsqueeze", dt__form_in(b, i), along);
    }
    const char *y = dt__form_node(b, "Concat", b->op->n_in, in);
    dt__form_int(b, "axis", axis);
    return dt__form_set(b, 0, y);
}

/* Splits input `from` along an axis into parts with these extents; `drop`: removes the axis. */
static dt_status divide(dt__lite_nodes *b, int from, int64_t axis, const int64_t *extents,
                        bool drop)
{
    const char *part[DT__VLITE_IN];
    const char *x = dt__form_codes_or_in(b, from);
    part[0] = DT__LITE_NODE(b, "Split", x, dt__form_list(b, b->op->n_out, extents));
    dt__form_int(b, "axis", axis);
    for (int i = 1; i < b->op->n_out; i++) part[i] = dt__form_more(b);
    for (int i = 0; i < b->op->n_out; i++) {
        if (drop) part[i] = DT__LITE_NODE(b, "Squeeze", part[i], dt__form_list(b, 1, &axis));
        dt__form_set(b, i, part[i]);
    }
    return b->status;
}

static dt_status unpack(dt__lite_nodes *b)
{
    int64_t ones[DT__VLITE_IN];
    for (int i = 0; i < b->op->n_out; i++) ones[i] = 1;
    return divide(b, 0, dt__form_axis(b, (int32_t)b->op->option[1], rank_of(b, 0)), ones, true);
}

/* SPLIT has its axis as input 0, SPLIT_V as input 2. */
static dt_status split(dt__lite_nodes *b)
{
    const int from = b->op->code == DT__VLITE_SPLIT ? 1 : 0;
    int64_t axis, extents[DT__VLITE_IN];
    int n;
    if (!dt__form_ints_of(b, from == 1 ? 0 : 2, 1, &n, &axis)) return b->status;
    axis = dt__form_axis(b, n == 1 ? axis : -100, rank_of(b, from));
    for (int i = 0; i < b->op->n_out && b->status == DT_OK; i++) {
        const dt__vlite_tensor *y = dt__form_out(b, i);
        if (y == NULL || y->rank <= axis) return dt__form_refuse(b, "its result %d has no axis", i);
        extents[i] = y->dims[axis];
        if (b->v->resized) extents[i] = dt__form_tensor(b, from)->dims[axis] / b->op->n_out;
    }
    return divide(b, from, axis, extents, false);
}

static dt_status put_slice(dt__lite_nodes *b, int n, const int64_t cut[3][LIST])
{
    int64_t axes[LIST];
    for (int i = 0; i < n; i++) axes[i] = i;
    const char *y = DT__LITE_NODE(b, "Slice", dt__form_codes_or_in(b, 0),
                                  dt__form_list(b, n, cut[0]), dt__form_list(b, n, cut[1]),
                                  dt__form_list(b, n, axes), dt__form_list(b, n, cut[2]));
    const dt__vlite_tensor *to = dt__form_out(b, 0);
    if (to != NULL && to->rank < rank_of(b, 0)) y = dt__form_shaped(b, y, to);
    return dt__form_set(b, 0, y);
}

static dt_status slice(dt__lite_nodes *b)
{
    int n, sizes;
    int64_t cut[3][LIST], size[LIST];
    if (!dt__form_ints_of(b, 1, LIST, &n, cut[0]) || !dt__form_ints_of(b, 2, LIST, &sizes, size)) {
        return b->status;
    }
    if (n != sizes || n != rank_of(b, 0)) return dt__form_refuse(b, "its lists do not fit");
    for (int i = 0; i < n; i++) {
        cut[1][i] = size[i] < 0 ? INT32_MAX : cut[0][i] + size[i];
        cut[2][i] = 1;
    }
    return put_slice(b, n, (const int64_t(*)[LIST])cut);
}

static dt_status strided_slice(dt__lite_nodes *b)
{
    enum { BEGIN, END, ELLIPSIS, NEW, SHRINK, OFFSET };
    const int64_t *o = b->op->option;
    int n[3];
    int64_t cut[3][LIST];
    for (int i = 0; i < 3; i++) {
        if (!dt__form_ints_of(b, 1 + i, LIST, &n[i], cut[i])) return b->status;
    }
    if (o[ELLIPSIS] != 0 || o[NEW] != 0 || o[OFFSET] != 0 || n[0] != n[1] || n[0] != n[2] ||
        n[0] > rank_of(b, 0)) {
        return dt__form_refuse(
            b, "it has an ellipsis, new dimensions, or offsets as ends, which are not read");
    }
    for (int i = 0; i < n[0]; i++) {
        const bool back = cut[2][i] < 0;
        if ((o[BEGIN] >> i & 1) != 0) cut[0][i] = back ? INT32_MAX : 0;
        if ((o[END] >> i & 1) != 0) cut[1][i] = back ? INT32_MIN : INT32_MAX;
        if ((o[SHRINK] >> i & 1) == 0) continue;
        cut[1][i] = cut[0][i] == -1 ? INT32_MAX : cut[0][i] + 1;
        cut[2][i] = 1;
    }
    return put_slice(b, n[0], (const int64_t(*)[LIST])cut);
}

static dt_status gather(dt__lite_nodes *b)
{
    if (b->op->option[1] != 0)
        return dt__form_refuse(b, "it has batch dimensions, which are not read");
    const dt__vlite_tensor *table = dt__form_tensor(b, 0);
    const bool constant = table != NULL && table->constant;
    const char *x = constant ? dt__form_in(b, 0) : dt__form_codes_or_in(b, 0);
    const char *y = DT__LITE_NODE(b, "Gather", x, dt__form_value(b, dt__lite_index_of(b), 1));
    dt__form_int(b, "axis", (int32_t)b->op->option[0]);
    return dt__form_set(b, 0, y);
}

static dt_status pad(dt__lite_nodes *b)
{
    int n;
    int64_t pads[LIST], turned[LIST];
    const char *x = dt__form_in(b, 0);
    if (!dt__form_ints_of(b, 1, LIST, &n, pads)) return b->status;
    if (n != 2 * rank_of(b, 0)) return dt__form_refuse(b, "its padding does not fit its input");
    for (int i = 0; i < n; i++) turned[i % 2 * (n / 2) + i / 2] = pads[i];
    const char *list = dt__form_list(b, n, turned), *y;
    if (b->op->code == DT__VLITE_MIRROR_PAD) {
        if (b->op->option[0] != 0)
            return dt__form_refuse(b, "it repeats the edge (SYMMETRIC), which is not read");
        y = DT__LITE_NODE(b, "Pad", x, list);
        dt__form_word(b, "mode", "reflect");
    } else if (b->op->n_in < 3) {
        y = DT__LITE_NODE(b, "Pad", x, list);
    } else {
        y = DT__LITE_NODE(b, "Pad", x, list, dt__form_in(b, 2));
    }
    return dt__form_set(b, 0, y);
}

/* BROADCAST_TO, TILE: with a list of extents. */
static dt_status listed(dt__lite_nodes *b)
{
    int n;
    int64_t list[LIST];
    if (!dt__form_ints_of(b, 1, LIST, &n, list)) return b->status;
    return dt__form_set(b, 0,
                        DT__LITE_NODE(b, named(b), dt__form_in(b, 0), dt__form_list(b, n, list)));
}

/* ---- images ---------------------------------------------------------------------------------- */

static dt_status depth(dt__lite_nodes *b)
{
    const char *y = DT__LITE_NODE(b, named(b), dt__form_channels_first(b, dt__form_in(b, 0)));
    dt__form_int(b, "blocksize", b->op->option[0]);
    if (b->op->code == DT__VLITE_DEPTH_TO_SPACE) dt__form_word(b, "mode", "DCR");
    return dt__form_set(b, 0, dt__form_channels_last(b, y));
}

/* A dilated convolution is written as SPACE_TO_BATCH_ND, a convolution of each part, and
 * BATCH_TO_SPACE_ND. Here the image is padded, the convolution dilated, and its result cropped. */
static bool batch_lists(dt__lite_nodes *b, int64_t block[2], int64_t ends[4])
{
    int blocks, n;
    const dt__vlite_tensor *x = dt__form_tensor(b, 0), *y = dt__form_out(b, 0);
    if (!dt__form_ints_of(b, 1, 2, &blocks, block) || !dt__form_ints_of(b, 2, 4, &n, ends)) {
        return false;
    }
    bool good = blocks == 2 && n == 4 && x != NULL && y != NULL && x->rank == 4 && y->rank == 4;
    for (int i = 0; good && i < n; i++) good = ends[i] >= 0 && block[i / 2] > 0;
    if (!good) dt__form_refuse(b, "it must be of an image, with two numbers");
    return good;
}

static dt_status space_to_batch(dt__lite_nodes *b)
{
    int64_t block[2], pads[4];
    if (!batch_lists(b, block, pads)) return b->status;
    const dt__vlite_tensor *x = dt__form_tensor(b, 0);
    for (int i = 0; i < 2; i++) {
        if ((x->dims[1 + i] + pads[2 * i] + pads[2 * i + 1]) % block[i] == 0) continue;
        return dt__form_refuse(b, "its padded image has a part of a block");
    }
    const int64_t list[] = { 0, pads[0], pads[2], 0, 0, pads[1], pads[3], 0 };
    dt__form_set(b, 0, DT__LITE_NODE(b, "Pad", dt__form_in(b, 0), dt__form_list(b, 8, list)));
    dt__form_set_block(b, block);
    return b->status;
}

static dt_status batch_to_space(dt__lite_nodes *b)
{
    int64_t block[2], crops[4];
    if (!batch_lists(b, block, crops)) return b->status;
    const int64_t *own = dt__form_block(b, 0), *dims = dt__form_out(b, 0)->dims;
    if (own == NULL || own[0] != block[0] || own[1] != block[1]) {
        return dt__form_refuse(b, "its input must come from a SPACE_TO_BATCH_ND");
    }
    const int64_t first[] = { crops[0], crops[2] }, axes[] = { 1, 2 };
    const int64_t end[] = { crops[0] + dims[1], crops[2] + dims[2] };
    return dt__form_set(b, 0,
                        DT__LITE_NODE(b, "Slice", dt__form_codes_or_in(b, 0),
                                      dt__form_list(b, 2, first), dt__form_list(b, 2, end),
                                      dt__form_list(b, 2, axes)));
}

static dt_status resize(dt__lite_nodes *b)
{
    const int64_t *o = b->op->option + (b->op->code == DT__VLITE_RESIZE_BILINEAR ? 2 : 0);
    const dt__vlite_tensor *x = dt__form_tensor(b, 0);
    int n;
    int64_t size[2];
    if (!dt__form_ints_of(b, 1, 2, &n, size)) return b->status;
    if (n != 2 || x == NULL || x->rank != 4)
        return dt__form_refuse(b, "its input must be [batch, height, width, channels]");
    const int64_t to[] = { x->dims[0], x->dims[3], size[0], size[1] };
    const char *y = DT__LITE_NODE(b, "Resize", dt__form_channels_first(b, dt__form_in(b, 0)), "",
                                  "", dt__form_list(b, 4, to));
    dt__form_word(b, "mode", b->op->code == DT__VLITE_RESIZE_BILINEAR ? "linear" : "nearest");
    dt__form_word(b, "coordinate_transformation_mode",
                  o[0] != 0   ? "align_corners"
                  : o[1] != 0 ? "half_pixel"
                              : "asymmetric");
    if (b->op->code != DT__VLITE_RESIZE_BILINEAR) {
        dt__form_word(b, "nearest_mode", o[0] != 0 || o[1] != 0 ? "round_prefer_ceil" : "floor");
    }
    y = dt__form_channels_last(b, y);
    if (b->op->code == DT__VLITE_RESIZE_BILINEAR) y = dt__form_away(b, y, 1.0 / 1024);
    return dt__form_set(b, 0, y);
}

static dt_status reduce(dt__lite_nodes *b)
{
    int n;
    int64_t axes[LIST];
    const dt__vlite_tensor *x = dt__form_tensor(b, 0);
    if (!dt__form_ints_of(b, 1, LIST, &n, axes)) return b->status;
    if (x != NULL && x->type == DT__VLITE_I32 && b->op->code == DT__VLITE_REDUCE_PROD) {
        return dt__form_extents_product(b);
    }
    const char *y = DT__LITE_NODE(b, named(b), dt__form_in(b, 0), dt__form_list(b, n, axes));
    dt__form_int(b, "keepdims", b->op->option[0] != 0);
    return dt__form_set(b, 0, y);
}

static dt_status cumulate(dt__lite_nodes *b)
{
    int n;
    int64_t axis;
    if (!dt__form_ints_of(b, 1, 1, &n, &axis)) return b->status;
    if (n != 1) return dt__form_refuse(b, "its dimension is not one number");
    const char *y = DT__LITE_NODE(b, "CumSum", dt__form_in(b, 0), dt__form_list(b, 1, &axis));
    dt__form_int(b, "exclusive", b->op->option[0] != 0);
    dt__form_int(b, "reverse", b->op->option[1] != 0);
    return dt__form_set(b, 0, y);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const dt__lite_form forms[] = {
#define DT__VLITE(name, code, newest, least, most, run, coded, onnx, form, ...)                    \
    { code, onnx, form },
#include "io/tflite/lite_operators.inc"
#undef DT__VLITE
};

const dt__lite_form *dt__lite_form_of(int code)
{
    for (int i = 0; i < DT__COUNT_OF(forms); i++) {
        if (forms[i].code == code) return forms[i].read == NULL ? NULL : &forms[i];
    }
    return NULL;
}
