/* Format c: ops of integer-only models (detent/device.h). */
#include "export/c/c_device.h"
#include "export/c/c_emit.h"
#include "export/c/c_views.h"
#include "export/trace/trace.h"
#include "ops/device/device_functions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, WEIGHT };

/* Channels, rows and columns; for other values than images [elements, 1, 1]. */
static void extents(const dt__c_program *p, int64_t v, int64_t out[3])
{
    const bool image = dt__c_is_image(p->trace, v), line = image && dt__c_rank(p, v) == 3;
    out[0] = image ? dt__c_dim(p, v, 1) : dt__c_count(p, v);
    out[1] = image && !line ? dt__c_dim(p, v, 2) : 1;
    out[2] = image ? dt__c_dim(p, v, -1) : 1;
}

static int activation_of(const dt_trace_call *c)
{
    return *(const int *)dt__c_field(c, "activation");
}

static void emit_view(dt__c_program *p, const dt_trace_call *c)
{
    (void)p;
    (void)c;
}

/* ---- products -------------------------------------------------------------------------------- */

static void emit_linear(dt__c_program *p, const dt_trace_call *c)
{
    const int bits = dt__c_device_weight(p, c, activation_of(c), false);
    const int64_t k = dt__c_count(p, c->in[X].value), n = dt__c_count(p, c->out[0]);
    const dt__c_name line = dt__c_scratch(p, c, "int16_t", k, sizeof(int16_t));
    char product[24];
    snprintf(product, sizeof product, "device_product_i%d", bits);
    if (bits == 0) return;
    dt__c_want(p, "device_line");
    dt__c_want(p, product);
    p->integer_products++;
    const dt__c_name x = dt__c_value(p, c->in[X].value);
    const int zero = dt__c_value_at(p, c->in[X].value)->zero_point;
    if (bits == 8) { /* CMSIS-NN has no 4-bit kernel with a scale per output */
        dt__c_begin_cmsis(p, "cmsis_linear_i8", (size_t)n * sizeof(int32_t));
        dt__c_line(p, "bad |= cmsis_linear_i8(&w%lld, %s, %d, %lld, room, %s);", (long long)p->at,
                   x.text, zero, (long long)n, dt__c_out(p, c, 0).text);
        dt__c_begin_plain(p);
    }
    dt__c_line(p, "device_line(%s, %lld, %d, %s);", x.text, (long long)k, zero, line.text);
    dt__c_line(p, "%s(&w%lld, %s, 0, %lld, %s);", product, (long long)p->at, line.text,
               (long long)n, dt__c_out(p, c, 0).text);
    if (bits == 8) dt__c_end_cmsis(p);
}

/* An option's value for rows (i 0) and columns (i 1); signals are images with one row. */
static long long option_of(const dt__c_program *p, const dt_trace_call *c, const char *key, int i)
{
    const bool line = dt__c_rank(p, c->in[WEIGHT].value) == 3;
    if (line && i == 0) return strcmp(key, "padding") == 0 ? 0 : 1;
    return (long long)dt__c_int(c, key, line ? 0 : i);
}

/* Writes the constant s<call> with the geometry. */
static void put_shape(dt__c_program *p, const dt_trace_call *c, const int64_t in[3],
                      const int64_t out[3], const int64_t kernel[2])
{
    dt__c_want(p, "device_shape");
    dt__c_constant(p,
                   "static const device_shape s%lld = { /* in, out, groups; kernel, stride; "
                   "padding, dilation, zero */\n"
                   "    %lld, %lld, %lld, %lld, %lld, %lld, %lld,\n"
                   "    %lld, %lld, %lld, %lld,\n"
                   "    %lld, %lld, %lld, %lld, %d\n};\n",
                   (long long)p->at, (long long)in[1], (long long)in[2], (long long)in[0],
                   (long long)out[1], (long long)out[2], (long long)out[0],
                   (long long)dt__c_int(c, "groups", 0), (long long)kernel[0], (long long)kernel[1],
                   option_of(p, c, "stride", 0), option_of(p, c, "stride", 1),
                   option_of(p, c, "padding", 0), option_of(p, c, "padding", 1),
                   option_of(p, c, "dilation", 0), option_of(p, c, "dilation", 1),
                   dt__c_value_at(p, c->in[X].value)->zero_point);
}

/* Writes loops over output positions and groups, with a product of the elements that the kernel
 * reads. */
static void put_positions(dt__c_program *p, const dt_trace_call *c, int bits, const int64_t out[3])
{
    const bool transposed = strcmp(c->op->name, "device_conv_transpose2d") == 0;
    const char *patch = transposed ? "device_patch_transposed" : "device_patch";
    const long long groups = (long long)dt__c_int(c, "groups", 0), each = out[0] / groups;
    const int64_t weight = c->in[WEIGHT].value;
    const int64_t columns = dt__c_count(p, weight) / dt__max_i64(1, out[0]);
    const dt__c_name room = dt__c_scratch(p, c, "int16_t", columns, sizeof(int16_t));
    char product[24], first[48] = "0", more[48] = "";
    snprintf(product, sizeof product, "device_product_i%d", bits);
    dt__c_want(p, patch);
    dt__c_want(p, product);
    dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) {", (long long)out[1]);
    dt__c_line(p, "for (int32_t j = 0; j < %lld; j++) {", (long long)out[2]);
    if (groups > 1) {
        dt__c_line(p, "for (int32_t group = 0; group < %lld; group++) {", groups);
        snprintf(first, sizeof first, "group * %lld", each);
        snprintf(more, sizeof more, " + group * %lld", each);
    }
    dt__c_line(p, "%s(&s%lld, %s, %s, i, j, %s);", patch, (long long)p->at,
               dt__c_value(p, c->in[X].value).text, groups > 1 ? "group" : "0", room.text);
    dt__c_line(p, "%s(&w%lld, %s, %s, %lld, %s + (i * %lld + j) * %lld%s);", product,
               (long long)p->at, room.text, first, each, dt__c_out(p, c, 0).text, (long long)out[2],
               (long long)out[0], more);
    for (int k = groups > 1 ? 3 : 2; k > 0; k--) dt__c_line(p, "}");
}

/* Scratch bytes for CMSIS-NN: four rows of the elements that a kernel reads, of 16 bits without
 * MVE, padded to whole registers with it; for a depthwise convolution rows of 124 channels, or of
 * all. */
static size_t room_of(const int64_t in[3], const int64_t kernel[2], bool depthwise)
{
    const int64_t taps = kernel[0] * kernel[1], each = dt__max_i64(in[0], depthwise ? 2 * 124 : 1);
    return (size_t)(4 * ((taps * each + 15) / 16 * 16));
}

/* Whether CMSIS-NN computes the convolution correctly on every processor. Its 4-bit depthwise
 * convolution is wrong for odd channels, and gcc 12 miscompiles it for MVE. */
static bool has_cmsis(const dt_trace_call *c, int bits, bool depthwise)
{
    return strcmp(c->op->name, "device_conv2d") == 0 &&
           (bits == 8 || (!depthwise && dt__c_int(c, "groups", 0) == 1));
}

static void put_conv(dt__c_program *p, const dt_trace_call *c, int bits, bool depthwise,
                     const int64_t out[3])
{
    char text[24];
    if (!depthwise) {
        put_positions(p, c, bits, out);
        return;
    }
    snprintf(text, sizeof text, "device_depthwise_i%d", bits);
    dt__c_want(p, text);
    dt__c_line(p, "%s(&s%lld, &w%lld, %s, %s);", text, (long long)p->at, (long long)p->at,
               dt__c_value(p, c->in[X].value).text, dt__c_out(p, c, 0).text);
}

static void emit_conv(dt__c_program *p, const dt_trace_call *c)
{
    int64_t in[3], out[3];
    extents(p, c->in[X].value, in);
    extents(p, c->out[0], out);
    const bool transposed = strcmp(c->op->name, "device_conv_transpose2d") == 0;
    const bool depthwise = !transposed && in[0] > 1 && dt__c_int(c, "groups", 0) == in[0];
    const int bits = dt__c_device_weight(p, c, activation_of(c), depthwise);
    const int64_t weight = c->in[WEIGHT].value;
    const bool line = dt__c_rank(p, weight) == 3;
    const int64_t kernel[] = { line ? 1 : dt__c_dim(p, weight, 2), dt__c_dim(p, weight, -1) };
    if (bits == 0) return;
    p->integer_products++;
    put_shape(p, c, in, out, kernel);
    if (!has_cmsis(c, bits, depthwise)) {
        put_conv(p, c, bits, depthwise, out);
        return;
    }
    char text[24];
    snprintf(text, sizeof text, "cmsis_%s_i%d", depthwise ? "depthwise" : "conv", bits);
    dt__c_begin_cmsis(p, text, room_of(in, kernel, depthwise));
    dt__c_line(p, "bad |= %s(&s%lld, &w%lld, %s, room, %s);", text, (long long)p->at,
               (long long)p->at, dt__c_value(p, c->in[X].value).text, dt__c_out(p, c, 0).text);
    dt__c_begin_plain(p);
    put_conv(p, c, bits, depthwise, out);
    dt__c_end_cmsis(p);
}

/* ---- elements -------------------------------------------------------------------------------- */

static dt__coding_range range_of(const dt_trace_value *v)
{
    return (dt__coding_range){ v->scale, v->zero_point };
}

/* A constant's codes as a table in memory order, with its channels, rows and columns. For a result
 * that is not an image, the constant is repeated to all of the result's elements. */
static dt__c_name constant_of(dt__c_program *p, const dt_trace_call *c, int i, int64_t in[3])
{
    const dt_trace_value *v = dt__c_value_at(p, c->in[i].value), *y = dt__c_value_at(p, c->out[0]);
    const bool image = dt__c_is_image(p->trace, c->out[0]);
    const float *x = dt__values(v->tensor);
    int64_t dims[DT_MAX_RANK], own[DT_MAX_RANK], n = 1;
    dt__c_name name;
    for (int d = 1; d < y->rank; d++) {
        const int at = d - (y->rank - v->rank);
        own[d] = at < 0 ? 1 : v->extent[at].size;
        n *= dims[d] = image ? own[d] : y->extent[d].size;
    }
    int8_t *codes = dt__alloc(p->ctx, (size_t)n);
    for (int64_t k = 0; k < n && codes != NULL; k++) {
        int64_t rest = k, from = 0, step = 1, to = 0, apart = 1;
        for (int d = y->rank - 1; d > 0; d--) { /* images have channels last */
            const int64_t index = rest % dims[d];
            rest /= dims[d];
            from += own[d] > 1 ? index * step : 0;
            step *= own[d];
            to += index * apart * (image && d > 1 ? dims[1] : 1);
            apart = image && d == 2 ? 1 : apart * dims[d];
        }
        codes[to] = (int8_t)(roundf(x[from] / v->scale) + (float)v->zero_point);
    }
    snprintf(name.text, sizeof name.text, "k%lld_%d", (long long)p->at, i);
    if (codes != NULL) dt__c_signed_bytes(p, name.text, "constant", codes, n);
    else dt__c_fail(p, DT_ERR_NOMEM);
    dt__release(p->ctx, codes);
    in[0] = image ? dims[1] : n;
    in[1] = image && y->rank == 4 ? dims[2] : 1;
    in[2] = image ? dims[y->rank - 1] : 1;
    return name;
}

/* Operand i of a binary op, broadcast to the extents of the result. */
static dt__c_name operand_of(dt__c_program *p, const dt_trace_call *c, int i)
{
    int64_t in[3], out[3];
    const bool constant = dt__c_value_at(p, c->in[i].value)->kind == DT_VALUE_CONSTANT;
    extents(p, c->out[0], out);
    if (!constant) extents(p, c->in[i].value, in);
    const dt__c_name x = constant ? constant_of(p, c, i, in) : dt__c_value(p, c->in[i].value);
    if (memcmp(in, out, sizeof in) == 0) return x;
    const dt__c_name to = dt__c_scratch(p, c, "int8_t", dt__c_count(p, c->out[0]), 1);
    dt__c_want(p, "device_spread");
    dt__c_constant(p,
                   "static const int32_t e%lld_%d[2][3] = { { %lld, %lld, %lld }, "
                   "{ %lld, %lld, %lld } };\n",
                   (long long)p->at, i, (long long)in[1], (long long)in[2], (long long)in[0],
                   (long long)out[1], (long long)out[2], (long long)out[0]);
    dt__c_line(p, "device_spread(%s, e%lld_%d[0], e%lld_%d[1], %s);", x.text, (long long)p->at, i,
               (long long)p->at, i, to.text);
    return to;
}

static bool make_pair(dt__c_program *p, const dt_trace_call *c, dt__device_add *by)
{
    const float a = dt__c_value_at(p, c->in[0].value)->scale,
                b = dt__c_value_at(p, c->in[1].value)->scale;
    const float y = dt__c_value_at(p, c->out[0])->scale;
    const bool mul = strcmp(c->op->name, "device_mul") == 0;
    *by = (dt__device_add){ .minus = false };
    if (strcmp(c->op->name, "device_prelu") == 0) {
        dt__device_prelu slopes;
        dt__device_prelu_make(a, b, y, &slopes);
        *by = (dt__device_add){ .a = slopes.above, .b = slopes.below };
        return true;
    }
    const bool fits = mul ? dt__device_mul_make(a, b, y, &by->y) : dt__device_add_make(a, b, y, by);
    if (fits) return true;
    dt__c_fail(p, dt_fail(p->ctx, DT_ERR_NUMERIC,
                          "export: %s: the scale of the result is too small", c->module));
    return false;
}

static void emit_pair(dt__c_program *p, const dt_trace_call *c)
{
    const dt__coding_range y = range_of(dt__c_value_at(p, c->out[0]));
    dt__device_add by;
    int least, most;
    if (!make_pair(p, c, &by)) return;
    dt__device_clamps(activation_of(c), y, &least, &most);
    dt__c_want(p, c->op->name);
    dt__c_constant(p,
                   "static const device_pair s%lld = { /* zeros; a, b, y: multiplier and shift; "
                   "clamps */\n"
                   "    %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d\n};\n",
                   (long long)p->at, dt__c_value_at(p, c->in[0].value)->zero_point,
                   dt__c_value_at(p, c->in[1].value)->zero_point, y.zero, by.a.m, by.a.shift,
                   by.b.m, by.b.shift, by.y.m, by.y.shift, least, most);
    const dt__c_name a = operand_of(p, c, 0), b = operand_of(p, c, 1), to = dt__c_out(p, c, 0);
    const long long n = (long long)dt__c_count(p, c->out[0]);
    const char *kind = c->op->name + strlen("device_");
    /* CMSIS-NN has no others */
    const bool cmsis = strcmp(kind, "add") == 0 || strcmp(kind, "mul") == 0;
    if (cmsis) {
        dt__c_begin_cmsis(p, "cmsis_pair", 0);
        dt__c_line(p, "bad |= cmsis_%s(&s%lld, %s, %s, %lld, %s);", kind, (long long)p->at, a.text,
                   b.text, n, to.text);
        dt__c_begin_plain(p);
    }
    dt__c_line(p, "device_%s(&s%lld, %s, %s, %lld, %s);", kind, (long long)p->at, a.text, b.text, n,
               to.text);
    if (cmsis) dt__c_end_cmsis(p);
}

static void emit_table(dt__c_program *p, const dt_trace_call *c)
{
    dt__device_table table;
    char name[24];
    const dt_device_table_options o = { (int)dt__c_int(c, "function", 0),
                                        *(const double *)dt__c_field(c, "slope") };
    dt__device_table_make(&o, range_of(dt__c_value_at(p, c->in[X].value)),
                          range_of(dt__c_value_at(p, c->out[0])), &table);
    snprintf(name, sizeof name, "t%lld", (long long)p->at);
    dt__c_signed_bytes(p, name, dt__device_function_names[o.function], table.code, 256);
    dt__c_want(p, "device_lookup");
    dt__c_line(p, "device_lookup(%s, %s, %lld, %s);", name, dt__c_value(p, c->in[X].value).text,
               (long long)dt__c_count(p, c->out[0]), dt__c_out(p, c, 0).text);
}

/* ---- means ----------------------------------------------------------------------------------- */

/* Describes a mean in memory order (channels last): `outer` times n codes, `inner` apart. False:
 * the reduced codes are not so, or the result would have another order. */
static bool means_of(const dt_trace_value *x, const dt_trace_call *c, int64_t of[3])
{
    static const int orders[][4] = { { 0 }, { 0, 1 }, { 0, 2, 1 }, { 0, 2, 3, 1 } };
    const dt_ints *dims = dt__c_field(c, "dims");
    bool over[DT_MAX_RANK] = { false }, began = false, ended = false;
    if (x->rank < 2 || x->rank > 4) return false;
    for (int i = 0; i < dims->n; i++) over[dt__trace_axis(dims->v[i], x->rank)] = true;
    of[0] = of[1] = of[2] = 1;
    for (int i = 1; i < x->rank; i++) {
        const int d = orders[x->rank - 1][i];
        const int64_t n = x->extent[d].size;
        if (over[d] && ended && n > 1) return false;
        began = began || over[d];
        ended = ended || (began && !over[d] && n > 1);
        of[over[d] ? 1 : began ? 2 : 0] *= n;
    }
    /* the result has channels last if it has several dimensions */
    return !over[1] || dt__c_flag(c, "keepdim") || x->rank - dims->n <= 2;
}

static bool takes_mean(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    int64_t of[3];
    if (means_of(dt_trace_value_at(t, c->in[X].value), c, of)) return true;
    snprintf(why, size, "its mean is over other dimensions than neighbours in the arena");
    return false;
}

static void emit_mean(dt__c_program *p, const dt_trace_call *c)
{
    int64_t of[3] = { 1, 1, 1 };
    const dt__coding_range x = range_of(dt__c_value_at(p, c->in[X].value));
    const dt__coding_range y = range_of(dt__c_value_at(p, c->out[0]));
    means_of(dt__c_value_at(p, c->in[X].value), c, of);
    const dt__multiplier by = dt__device_mean_make(x.scale, y.scale, of[1]);
    dt__c_want(p, "device_mean");
    dt__c_constant(p,
                   "static const device_means s%lld = { /* outer, n, inner; zeros, factor */\n"
                   "    %lld, %lld, %lld, %d, %d, %d, %d\n};\n",
                   (long long)p->at, (long long)of[0], (long long)of[1], (long long)of[2], x.zero,
                   y.zero, by.m, by.shift);
    dt__c_line(p, "device_mean(&s%lld, %s, %s);", (long long)p->at,
               dt__c_value(p, c->in[X].value).text, dt__c_out(p, c, 0).text);
}

/* Pools that CMSIS-NN lacks: dilated maxima, and means that count padding. */
static bool emit_plain_pool(dt__c_program *p, const dt_trace_call *c)
{
    const bool max = strcmp(c->op->name, "device_max_pool2d") == 0;
    const int64_t gap[] = { dt__c_int(c, "dilation", 0), dt__c_int(c, "dilation", 1) };
    const bool pads = dt__c_int(c, "padding", 0) > 0 || dt__c_int(c, "padding", 1) > 0;
    const dt__c_name x = dt__c_value(p, c->in[X].value);
    if (max && (gap[0] > 1 || gap[1] > 1)) {
        dt__c_want(p, "device_max_pool_gaps");
        dt__c_line(p, "device_max_pool_gaps(&s%lld, %lld, %lld, %s, %s);", (long long)p->at,
                   (long long)dt__max_i64(1, gap[0]), (long long)dt__max_i64(1, gap[1]), x.text,
                   dt__c_out(p, c, 0).text);
        return true;
    }
    if (max || !pads || !dt__c_flag(c, "count_include_pad")) return false;
    dt__c_want(p, "device_average_padded");
    dt__c_line(p, "device_average_padded(&s%lld, %d, %s, %s);", (long long)p->at,
               dt__c_value_at(p, c->in[X].value)->zero_point, x.text, dt__c_out(p, c, 0).text);
    return true;
}

static void emit_pool(dt__c_program *p, const dt_trace_call *c)
{
    const bool max = strcmp(c->op->name, "device_max_pool2d") == 0;
    const char *text = max ? "device_max_pool" : "device_average_pool";
    int64_t in[3], out[3], stride[2];
    extents(p, c->in[X].value, in);
    extents(p, c->out[0], out);
    for (int i = 0; i < 2; i++) {
        stride[i] =
            dt__c_int(c, "stride", i) != 0 ? dt__c_int(c, "stride", i) : dt__c_int(c, "kernel", i);
    }
    dt__c_constant(p,
                   "static const device_pool s%lld = { /* in, out; kernel, stride; padding, "
                   "clamps */\n"
                   "    %lld, %lld, %lld, %lld, %lld,\n    %lld, %lld, %lld, %lld,\n"
                   "    %lld, %lld, -128, 127\n};\n",
                   (long long)p->at, (long long)in[1], (long long)in[2], (long long)in[0],
                   (long long)out[1], (long long)out[2], (long long)dt__c_int(c, "kernel", 0),
                   (long long)dt__c_int(c, "kernel", 1), (long long)stride[0], (long long)stride[1],
                   (long long)dt__c_int(c, "padding", 0), (long long)dt__c_int(c, "padding", 1));
    if (emit_plain_pool(p, c)) return;
    dt__c_want(p, text);
    dt__c_begin_cmsis(p, "cmsis_pool", (size_t)(in[0] * (int64_t)sizeof(int32_t)));
    dt__c_line(p, "bad |= cmsis_pool(&s%lld, %d, %s, room, %s);", (long long)p->at, max,
               dt__c_value(p, c->in[X].value).text, dt__c_out(p, c, 0).text);
    dt__c_begin_plain(p);
    dt__c_line(p, "%s(&s%lld, %s, %s);", text, (long long)p->at,
               dt__c_value(p, c->in[X].value).text, dt__c_out(p, c, 0).text);
    dt__c_end_cmsis(p);
}

static bool takes_softmax(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_trace_value *x = dt_trace_value_at(t, c->in[X].value);
    if (x->rank == 2) return true;
    snprintf(why, size, "it is over the columns of an image");
    return false;
}

static void emit_softmax(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t n = dt__c_dim(p, c->in[X].value, -1);
    dt__device_softmax s;
    if (!dt__device_softmax_make((double)dt__c_value_at(p, c->in[X].value)->scale, &s)) {
        dt__c_fail(p, dt_fail(p->ctx, DT_ERR_NUMERIC,
                              "export: %s: the scale of its operand is "
                              "too small",
                              c->module));
        return;
    }
    dt__c_want(p, "device_softmax");
    for (int plain = 0; plain < 2; plain++) {
        if (plain) dt__c_begin_plain(p);
        else dt__c_begin_cmsis(p, "cmsis_softmax", 0);
        dt__c_line(p, "%s_softmax(%s, %lld, %lld, %d, %d, %d, %s);",
                   plain ? "device" : "bad |= cmsis", dt__c_value(p, c->in[X].value).text,
                   (long long)(dt__c_count(p, c->in[X].value) / n), (long long)n, s.by.m,
                   s.by.shift, s.least, dt__c_out(p, c, 0).text);
    }
    dt__c_end_cmsis(p);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void emit_reshape(dt__c_program *p, const dt_trace_call *c)
{
    int64_t in[3], out[3];
    extents(p, c->in[X].value, in);
    extents(p, c->out[0], out);
    if (dt__c_is_device_view(p, c)) return;
    const bool flat = dt__c_is_image(p->trace, c->in[X].value);
    dt__c_want(p, "device_turn");
    dt__c_line(p, "device_turn(%s, %lld, %lld, %s);", dt__c_value(p, c->in[X].value).text,
               (long long)(flat ? in[1] * in[2] : out[0]),
               (long long)(flat ? in[0] : out[1] * out[2]), dt__c_out(p, c, 0).text);
}

/* Swaps the two dimensions of a signal. */
static void emit_permute(dt__c_program *p, const dt_trace_call *c)
{
    if (dt__c_is_device_view(p, c)) return;
    dt__c_want(p, "device_turn");
    dt__c_line(p, "device_turn(%s, %lld, %lld, %s);", dt__c_value(p, c->in[X].value).text,
               (long long)dt__c_dim(p, c->in[X].value, 2),
               (long long)dt__c_dim(p, c->in[X].value, 1), dt__c_out(p, c, 0).text);
}

/* Joins operands side by side: each writes n codes, from `first` on, in each of `rows` rows of the
 * result. */
static void emit_concat(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t y = c->out[0], dim = dt__trace_axis(dt__c_int(c, "dim", 0), dt__c_rank(p, y));
    int64_t out[3], first = 0;
    extents(p, y, out);
    const bool image = dt__c_is_image(p->trace, y);
    const int64_t all = dt__c_count(p, y);
    const int64_t rows = !image || dim == 2 ? 1 : dim == 3 ? out[1] : out[1] * out[2];
    dt__c_want(p, "device_place");
    for (int i = 0; i < c->n_in; i++) {
        const int64_t n = dt__c_count(p, c->in[i].value) / rows;
        dt__c_line(p, "device_place(%s, %lld, %lld, %lld, %s + %lld);",
                   dt__c_value(p, c->in[i].value).text, (long long)rows, (long long)n,
                   (long long)(all / rows), dt__c_out(p, c, 0).text, (long long)first);
        first += n;
    }
}

static void emit_upsample(dt__c_program *p, const dt_trace_call *c)
{
    int64_t in[3], out[3];
    extents(p, c->in[X].value, in);
    extents(p, c->out[0], out);
    dt__c_want(p, "device_upsample");
    dt__c_line(p, "device_upsample(%s, %lld, %lld, %lld, %lld, %lld, %s);",
               dt__c_value(p, c->in[X].value).text, (long long)in[1], (long long)in[2],
               (long long)in[0], (long long)out[1], (long long)out[2], dt__c_out(p, c, 0).text);
}

static bool takes_pad(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_ints *pads = dt__c_field(c, "pads");
    const dt_trace_value *x = dt_trace_value_at(t, c->in[X].value);
    bool takes = x->rank > 2;
    for (int i = 0; i < pads->n; i++) {
        takes = takes && pads->v[i] >= 0 && (i < 2 * (x->rank - 2) || !pads->v[i]);
    }
    if (!takes) snprintf(why, size, "it pads other than rows and columns of an image");
    return takes;
}

static void emit_pad(dt__c_program *p, const dt_trace_call *c)
{
    const dt_ints *pads = dt__c_field(c, "pads");
    int64_t in[3], out[3];
    extents(p, c->in[X].value, in);
    extents(p, c->out[0], out);
    const int64_t left = pads->n > 0 ? pads->v[0] : 0, top = pads->n > 2 ? pads->v[2] : 0;
    const dt__c_name y = dt__c_out(p, c, 0);
    dt__c_want(p, "device_place");
    const double outside = *(const double *)dt__c_field(c, "value");
    dt__c_line(p, "memset(%s, %d, %lld);", y.text,
               dt__device_code(outside, range_of(dt__c_value_at(p, c->in[X].value))),
               (long long)dt__c_count(p, c->out[0]));
    dt__c_line(p, "device_place(%s, %lld, %lld, %lld, %s + %lld);",
               dt__c_value(p, c->in[X].value).text, (long long)in[1], (long long)(in[2] * in[0]),
               (long long)(out[2] * out[0]), y.text, (long long)((top * out[2] + left) * out[0]));
}

/* The only dimension that a slice shortens, and its range; false: none, several, or with a step. */
static bool cut_of(const dt_trace_value *x, const dt_trace_call *c, int64_t range[3])
{
    const dt_ints *dims = dt__c_field(c, "dims"), *steps = dt__c_field(c, "steps");
    const dt_ints *starts = dt__c_field(c, "starts"), *stops = dt__c_field(c, "stops");
    if (dims->n != 1 || (steps->n > 0 && steps->v[0] != 1) || x->rank > 4) return false;
    range[0] = dt__trace_axis(dims->v[0], x->rank);
    for (int i = 0; i < 2; i++) {
        range[1 + i] = dt__bound_in(i == 0 ? starts->v[0] : stops->v[0], x->extent[range[0]].size);
    }
    return range[0] > 0;
}

static bool takes_slice(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    int64_t range[3];
    if (cut_of(dt_trace_value_at(t, c->in[X].value), c, range)) return true;
    snprintf(why, size, "it cuts several dimensions, or takes every other element");
    return false;
}

static void emit_slice(dt__c_program *p, const dt_trace_call *c)
{
    int64_t in[3], range[3] = { 0 };
    extents(p, c->in[X].value, in);
    cut_of(dt__c_value_at(p, c->in[X].value), c, range);
    const bool image = dt__c_is_image(p->trace, c->in[X].value);
    const bool line = image && dt__c_rank(p, c->in[X].value) == 3;
    const int64_t d = range[0] == 1 ? 1 : line ? 3 : range[0]; /* channels, rows, columns */
    const int64_t each = !image || d == 1 ? 1 : d == 3 ? in[0] : in[0] * in[2];
    const int64_t rows = !image || d == 2 ? 1 : d == 3 ? in[1] : in[1] * in[2];
    const int64_t width = dt__c_count(p, c->in[X].value) / rows;
    dt__c_want(p, "device_take");
    dt__c_line(p, "device_take(%s + %lld, %lld, %lld, %lld, %s);",
               dt__c_value(p, c->in[X].value).text, (long long)(range[1] * each), (long long)rows,
               (long long)((range[2] - range[1]) * each), (long long)width,
               dt__c_out(p, c, 0).text);
}

const dt__c_emitter dt__c_emit_device[] = { { "device_quantize", NULL, NULL, emit_view },
                                            { "device_dequantize", NULL, NULL, emit_view },
                                            { "device_linear", NULL, NULL, emit_linear },
                                            { "device_conv2d", NULL, NULL, emit_conv },
                                            { "device_conv_transpose2d", NULL, NULL, emit_conv },
                                            { "device_add", NULL, NULL, emit_pair },
                                            { "device_mul", NULL, NULL, emit_pair },
                                            { "device_sub", NULL, NULL, emit_pair },
                                            { "device_prelu", NULL, NULL, emit_pair },
                                            { "device_table", NULL, NULL, emit_table },
                                            { "device_mean", NULL, takes_mean, emit_mean },
                                            { "device_slice", NULL, takes_slice, emit_slice },
                                            { "device_max_pool2d", NULL, NULL, emit_pool },
                                            { "device_avg_pool2d", NULL, NULL, emit_pool },
                                            { "device_softmax", NULL, takes_softmax, emit_softmax },
                                            { "device_reshape", NULL, NULL, emit_reshape },
                                            { "device_permute", NULL, NULL, emit_permute },
                                            { "device_upsample_nearest", NULL, NULL,
                                              emit_upsample },
                                            { "device_concat", NULL, NULL, emit_concat },
                                            { "device_pad", NULL, takes_pad, emit_pad },
                                            { 0 } };
