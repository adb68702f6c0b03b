/* Reads weights of a compressed-tensors folder as weights of a converted model. The tensors of a
 * layer NAME
 *
 *     NAME.weight_packed  I32 [out, words] (pack-quantized), else NAME.weight  I8 [out, in]
 *     NAME.weight_scale   F32, F16 or BF16 [out, groups]; [1] of strategy tensor
 *     NAME.weight_zero_point  I8 [out, groups], or packed I32 down the rows: [words, groups]
 *     NAME.weight_shape   I64 [2]; needed where packed
 *
 * and of floats in blocks (nvfp4-pack-quantized, mxfp4-pack-quantized)
 *
 *     NAME.weight_packed  U8 [out, in / 2], codes of E2M1, the first in the low half
 *     NAME.weight_scale   F8_E4M3 [out, in / 16], or U8 (E8M0: 2^(E - 127)) [out, in / 32]
 *     NAME.weight_global_scale  F32 [1], of NVFP4: a scale is E4M3 / global
 *     NAME.weight_packed  U8 [out, in * 3 / 4], of E2M3, four in three bytes (mxfp6-pack-quantized)
 *     NAME.weight  F8_E4M3 [out, in], and weight_scale in E8M0 (mxfp8-quantized)
 *     NAME.input_global_scale  F32 [1], of inputs in NVFP4; 1 where there is none
 *
 * become NAME.weight.codes, .scale and .zero_point, and an entry of detent.quant. An expert
 * becomes its values, NAME.weight, as transformers has them, too. */
#include "core/block_list.h"
#include "core/text/ending.h"
#include "core/text/half.h"
#include "core/text/small_float.h"
#include "io/model/code_rows.h"
#include "io/hf/hf_compressed.h"
#include "qat/schemes/scheme.h"

#include <float.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

static const char *const parts[] = { ".weight_packed",       ".weight_scale", ".weight_zero_point",
                                     ".weight_global_scale", ".weight_shape", ".weight_g_idx",
                                     ".input_global_scale" };

/* A layer that is being read. */
typedef struct layer {
    dt_file *folder;
    const dt_file *part;
    const dt__hf_group *group;
    const char *path; /* of the module, kept */
    const dt_file_entry *codes, *scale, *zero, *shape, *global, *input;
    int64_t rows, columns, groups;
    int real; /* scheme of a block float type, or -1 */
    dt__module_quant quant;
    bool packed, packed_zero;
} layer;

static dt_status refuse(const layer *l, const char *format, ...) DT_PRINTF(2, 3);

static dt_status refuse(const layer *l, const char *format, ...)
{
    char text[400], shown[DT__SHOWN];
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(l->folder->ctx, DT_ERR_FORMAT, "%s: weight of '%s': %s", l->part->path,
                   dt__shown(l->path, shown), text);
}

/* ---- which tensors -------------------------------------------------------------------------- */

/* Whether the name is one of an integer weight's tensors; *n: the length of the layer's path. */
static bool is_part(const dt_file_entry *e, size_t *n)
{
    for (int i = 0; i < DT__COUNT_OF(parts); i++) {
        *n = strlen(e->name) - strlen(parts[i]);
        if (dt__has_end(e->name, parts[i])) return true;
    }
    *n = strlen(e->name) - strlen(".weight");
    return dt__has_end(e->name, ".weight") &&
           (strcmp(e->dtype, "I8") == 0 || strcmp(e->dtype, "F8_E4M3") == 0);
}

static const dt_file_entry *find(const layer *l, const char *suffix)
{
    char name[512];
    const int n = snprintf(name, sizeof name, "%s%s", l->path, suffix);
    return n < (int)sizeof name ? dt_file_find(l->part, name) : NULL;
}

bool dt__hf_has_integer_head(const dt_file *folder)
{
    for (int64_t i = 0; i < folder->n_parts; i++) {
        if (dt_file_find(folder->part[i], "lm_head.weight_scale") != NULL) return true;
    }
    return false;
}

/* ---- which group ---------------------------------------------------------------------------- */

/* Translates Python's regular expression to POSIX: \d and \w, and no lazy or group extensions.
 * Counts in braces and back references are refused, as a hostile file could take any memory and
 * time with them; no real folder uses them. */
static bool translate(const char *from, char *to, size_t size)
{
    size_t used = 0;
    for (; *from != 0; from++) {
        char one[3] = { *from, 0, 0 };
        const char *put = one;
        if (*from == '\\') {
            from++;
            if (*from == 0) return false;
            one[0] = '\\';
            one[1] = *from;
            if (*from >= '0' && *from <= '9') return false;
            if (*from == 'd') put = "[0-9]";
            if (*from == 'w') put = "[A-Za-z0-9_]";
        } else if (*from == '{') {
            return false;
        } else if (*from == '(' && from[1] == '?') {
            if (from[2] != ':') return false;
            from += 2;
        }
        if (used + strlen(put) + 1 > size) return false;
        used += (size_t)snprintf(to + used, size - used, "%s", put);
    }
    return true;
}

/* Whether an expression matches from the beginning of the path, as re.match does. */
static dt_status matches(const layer *l, const char *expression, bool *out)
{
    char text[512], shown[DT__SHOWN];
    regex_t regex;
    regmatch_t at;
    if (!translate(expression, text, sizeof text) || regcomp(&regex, text, REG_EXTENDED) != 0) {
        return dt_fail(l->folder->ctx, DT_ERR_UNSUPPORTED,
                       "%s: quantization_config: the expression '%s' is not known here",
                       l->part->path, dt__shown(expression, shown));
    }
    *out = regexec(&regex, l->path, 1, &at, 0) == 0 && at.rm_so == 0;
    regfree(&regex);
    return DT_OK;
}

static dt_status is_target(const layer *l, const char *target, bool *out)
{
    *out = strcmp(target, "Linear") == 0 || strcmp(target, l->path) == 0;
    return strncmp(target, "re:", 3) == 0 ? matches(l, target + 3, out) : DT_OK;
}

/* Groups that name the path take precedence over those that name the class, as in
 * compressed-tensors. */
static dt_status find_group(layer *l, const dt__hf_groups *g)
{
    for (int of_class = 0; of_class < 2 && l->group == NULL; of_class++) {
        for (int64_t i = 0; i < g->n && l->group == NULL; i++) {
            for (int64_t k = 0; k < g->at[i].n && l->group == NULL; k++) {
                const char *target = g->at[i].target[k];
                bool found;
                if ((strcmp(target, "Linear") == 0) != (of_class == 1)) continue;
                DT__TRY(is_target(l, target, &found));
                if (found) l->group = &g->at[i];
            }
        }
    }
    if (l->group != NULL) return DT_OK;
    return refuse(l, "no group of quantization_config has it as a target");
}

/* ---- shapes --------------------------------------------------------------------------------- */

static dt_status read_shape(layer *l)
{
    int64_t shape[2];
    if (l->codes->rank != 2) return refuse(l, "its codes are not a matrix");
    l->rows = l->codes->dims[0];
    l->columns = l->codes->dims[1];
    if (!l->packed) return DT_OK;
    if (l->real >= 0) {
        if (l->columns > INT64_MAX / 64) return refuse(l, "too many columns");
        if (l->real == DT_SCHEME_MXFP6 && l->columns % 3 != 0) {
            return refuse(l, "weight_packed has %lld columns; four codes have three",
                          (long long)l->columns);
        }
        l->columns = l->real == DT_SCHEME_MXFP6 ? l->columns / 3 * 4 : l->columns * 2;
        return DT_OK;
    }
    const dt_file_entry *e = l->shape;
    if (e == NULL || e->count != 2 || strcmp(e->dtype, "I64") != 0) {
        return refuse(l, "weight_shape must be there, I64 [2]");
    }
    memcpy(shape, e->data, sizeof shape);
    const int64_t bits = l->group->weight.bits;
    if (shape[0] != l->rows || shape[1] < 0 || shape[1] > INT64_MAX / 64 ||
        dt__ceil_div(shape[1] * bits, 32) != l->columns) {
        return refuse(l, "weight_packed [%lld, %lld] does not hold %lld by %lld codes of %lld bits",
                      (long long)l->rows, (long long)l->columns, (long long)shape[0],
                      (long long)shape[1], (long long)bits);
    }
    l->columns = shape[1];
    return DT_OK;
}

/* Codes of block floats are their values times 2^this. */
static int unit_of(const layer *l)
{
    return l->real == DT_SCHEME_MXFP8 ? 0 : l->real == DT_SCHEME_MXFP6 ? 3 : 1;
}

static float scale_at(const layer *l, int64_t i)
{
    const dt_file_entry *e = l->scale;
    const unsigned char *from = e->data;
    uint16_t half;
    float x;
    if (l->real >= 0 && l->real != DT_SCHEME_NVFP4) {
        return from[i] == 255 ? NAN : ldexpf(1, from[i] - 127 - unit_of(l));
    }
    if (l->real == DT_SCHEME_NVFP4) {
        memcpy(&x, l->global->data, sizeof x);
        return dt__small_has(&dt__e4m3, from[i]) ? dt__small_value(&dt__e4m3, from[i]) / x / 2
                                                 : NAN;
    }
    if (e->count == 1) i = 0;
    if (strcmp(e->dtype, "F32") == 0) {
        memcpy(&x, from + i * 4, sizeof x);
        return x;
    }
    memcpy(&half, from + i * 2, sizeof half);
    return strcmp(e->dtype, "F16") == 0 ? dt__f16_to_f32(half) : dt__bf16_to_f32(half);
}

/* The scale of block i as the model stores it: any scale fits a block of zeros. A scale of NVFP4
 * stays E4M3, without the factor of the tensor's scale. */
static float held_scale(const layer *l, int64_t i)
{
    const float s = scale_at(l, i);
    float global;
    if (l->real < 0) return s;
    if (l->real != DT_SCHEME_NVFP4 || s > 0) return fmaxf(s, 0x1p-126f);
    memcpy(&global, l->global->data, sizeof global);
    return fmaxf(0.125f / global / 2, 0x1p-126f);
}

/* Code k of a sequence of `bits` bits each, in 32-bit words that are `stride` words apart. */
static int code_at(const unsigned char *words, int64_t stride, int64_t bits, int64_t k)
{
    const int64_t at = k * bits;
    uint32_t low, high = 0;
    memcpy(&low, words + at / 32 * stride * 4, sizeof low);
    if (at % 32 + bits > 32) memcpy(&high, words + (at / 32 + 1) * stride * 4, sizeof high);
    const uint64_t both = (uint64_t)high << 32 | low;
    return (int)(both >> (at % 32) & ((1U << bits) - 1)) - (1 << (bits - 1));
}

static dt_status code_of(const layer *l, int64_t row, int64_t column, int *out)
{
    const int64_t bits = l->group->weight.bits;
    const unsigned char *data = l->codes->data;
    if (l->real == DT_SCHEME_MXFP8) {
        const unsigned char byte = data[row * l->columns + column];
        *out = (int8_t)byte;
        if (dt__small_has(&dt__e4m3, byte)) return DT_OK;
        return refuse(l, "row %lld, column %lld: NaN", (long long)row, (long long)column);
    }
    if (l->real == DT_SCHEME_MXFP6) {
        const int64_t at = (row * l->columns + column) * 6, part = at % 8;
        /* only if the code extends into the next byte */
        const unsigned next = part > 2 ? data[at / 8 + 1] : 0;
        const unsigned both = data[at / 8] | next << 8;
        *out = (int)(8 * dt__small_value(&dt__e2m3, both >> part & 63));
        return DT_OK;
    }
    if (l->real >= 0) {
        const int64_t at = row * l->columns + column;
        *out = (int)(2 * dt__small_value(&dt__e2m1, data[at / 2] >> (at % 2 * 4) & 15));
        return DT_OK;
    }
    if (l->packed) {
        *out = code_at(data + row * l->codes->dims[1] * 4, 1, bits, column);
        return DT_OK;
    }
    *out = (int8_t)data[row * l->columns + column];
    if (*out >= -(1 << (bits - 1)) && *out < 1 << (bits - 1)) return DT_OK;
    return refuse(l, "row %lld, column %lld: code %d is none of %d bits", (long long)row,
                  (long long)column, *out, (int)bits);
}

/* Whether all codes of block i are zeros, of either sign. */
static bool is_zero(const layer *l, int64_t i)
{
    const int64_t n = l->group->weight.group, row = i / l->groups, column = i % l->groups * n;
    const int sign = l->real == DT_SCHEME_MXFP8 ? 0x7f : ~0;
    for (int64_t k = 0; k < n; k++) {
        int code;
        if (code_of(l, row, column + k, &code) != DT_OK || (code & sign) != 0) return false;
    }
    return true;
}

/* Checks that a model can store all scales: a block whose scale is below the least number must
 * consist of zeros, so that the scale has no effect. */
static dt_status check_block_scales(const layer *l)
{
    const dt_file_entry *e = l->global;
    const dt_quant_spec quant = { .scheme = l->real };
    const float most = (float)dt__qmax(&quant);
    if (l->real == DT_SCHEME_NVFP4 &&
        (e == NULL || e->count != 1 || strcmp(e->dtype, "F32") != 0)) {
        return refuse(l, "weight_global_scale must be there, F32 [1]");
    }
    for (int64_t i = 0; i < l->rows * l->groups; i++) {
        const float s = scale_at(l, i);
        if (s >= 0x1p-126f && most * s <= FLT_MAX) continue;
        if (s >= 0 && s < 1 && is_zero(l, i)) continue;
        return refuse(l,
                      "row %lld, group %lld: scale %g, with which values are not finite, or "
                      "below those of models",
                      (long long)(i / l->groups), (long long)(i % l->groups),
                      ldexp((double)s, unit_of(l)));
    }
    return DT_OK;
}

static dt_status check_scale(const layer *l)
{
    const dt_file_entry *e = l->scale;
    const bool of_tensor = strcmp(l->group->weight.strategy, "tensor") == 0;
    const char *dtype = l->real == DT_SCHEME_NVFP4 ? "F8_E4M3" : "U8";
    if (l->real >= 0 && (e == NULL || strcmp(e->dtype, dtype) != 0)) {
        return refuse(l, "weight_scale must be there, in %s", dtype);
    }
    if (l->real < 0 && (e == NULL || dt__hf_dtype(e->dtype) == NULL)) {
        return refuse(l, "weight_scale must be there, in F32, F16 or BF16");
    }
    if (of_tensor && e->count == 1) return DT_OK;
    if (!of_tensor && e->count == l->rows * l->groups && e->rank >= 1 && e->dims[0] == l->rows) {
        return l->real >= 0 ? check_block_scales(l) : DT_OK;
    }
    return refuse(l, "weight_scale has %lld values; expected %lld rows of %lld groups",
                  (long long)e->count, (long long)l->rows, (long long)l->groups);
}

static dt_status check_zero(layer *l)
{
    const dt_file_entry *e = l->zero;
    const int64_t blocks = l->rows * l->groups, bits = l->group->weight.bits;
    if (l->group->weight.symmetric) {
        l->zero = NULL; /* zero points that are all 0 */
        return DT_OK;
    }
    if (e == NULL) return refuse(l, "weight_zero_point is missing");
    const bool of_tensor = strcmp(l->group->weight.strategy, "tensor") == 0 && e->count == 1;
    l->packed_zero = strcmp(e->dtype, "I32") == 0;
    if (l->packed_zero && e->count == dt__ceil_div(l->rows * bits, 32) * l->groups) return DT_OK;
    if (strcmp(e->dtype, "I8") == 0 && (e->count == blocks || of_tensor)) return DT_OK;
    return refuse(l, "weight_zero_point must be I8 [%lld, %lld], or as much packed as I32",
                  (long long)l->rows, (long long)l->groups);
}

static dt_status measure(layer *l)
{
    const dt__hf_arguments *w = &l->group->weight;
    int64_t count;
    DT__TRY(read_shape(l));
    if (l->rows == 0 || l->columns == 0 || l->rows > INT64_MAX / 64 ||
        !dt__product(2, (const int64_t[]){ l->rows, l->columns }, &count)) {
        return refuse(l, "%lld by %lld codes", (long long)l->rows, (long long)l->columns);
    }
    if (w->group > 0 && l->columns % w->group != 0) {
        return refuse(l, "group_size %lld does not divide its %lld columns", (long long)w->group,
                      (long long)l->columns);
    }
    l->groups = w->group > 0 ? l->columns / w->group : 1;
    DT__TRY(check_scale(l));
    return check_zero(l);
}

/* ---- codes ---------------------------------------------------------------------------------- */

/* Writes codes in the form of a model's file. */
static dt_status make_codes(const layer *l, unsigned char *to, int64_t row_bytes)
{
    const int bits = dt__storage_bits(l->group->weight.bits);
    const int per_byte = 8 / bits;
    const dt__levels *levels = dt__levels_of(&l->quant.weight.scheme);
    memset(to, 0, (size_t)(l->rows * row_bytes));
    for (int64_t r = 0; r < l->rows; r++) {
        for (int64_t k = 0; k < l->columns; k++) {
            int code;
            DT__TRY(code_of(l, r, k, &code));
            if (levels != NULL && levels->real == NULL)
                code = dt__edges_below(levels, (float)code) - 1; /* its index among the levels */
            to[r * row_bytes + k / per_byte] |=
                (unsigned char)(((unsigned)code & (0xFFU >> (8 - bits))) << (k % per_byte * bits));
        }
    }
    return DT_OK;
}

static int zero_at(const layer *l, int64_t row, int64_t group)
{
    const unsigned char *from = l->zero->data;
    if (l->packed_zero) {
        return code_at(from + group * 4, l->groups, l->group->weight.bits, row);
    }
    return (int8_t)from[l->zero->count == 1 ? 0 : row * l->groups + group];
}

/* Whether all scales fit f16 and some are not positive, as scheme q4_0 computes them. */
static bool is_q4_0(const layer *l)
{
    const dt__hf_arguments *w = &l->group->weight;
    bool negative = false;
    if (w->bits != 4 || w->group != 32 || !w->symmetric) return false;
    for (int64_t i = 0; i < l->rows * l->groups; i++) {
        const float s = scale_at(l, i);
        negative |= s <= 0;
        if (dt__round_f16(s) != s) return false;
    }
    return negative;
}

/* ---- what becomes of it --------------------------------------------------------------------- */

static void describe_input(layer *l)
{
    const dt__hf_arguments *x = &l->group->input;
    const int scheme = dt__hf_input_scheme(x);
    dt_quant_spec *q = &l->quant.input.scheme;
    const dt_quant_patch blocks = { .quant = { .scheme = scheme, .range = DT_RANGE_STATIC },
                                    .has_scheme = true,
                                    .has_range = l->input != NULL };
    if (x->given && x->symmetric) q->scheme = DT_SCHEME_SYMMETRIC;
    if (scheme >= 0) dt_quant_apply(q, &blocks);
    l->quant.input.range_state = DT__FIXED;
}

static void describe(layer *l)
{
    const dt__hf_arguments *w = &l->group->weight, *x = &l->group->input;
    dt_quant_spec *q = &l->quant.weight.scheme;
    dt_qat_preset(DT_INT8_DYNAMIC_INT4_WEIGHT, q, &l->quant.input.scheme);
    q->bits = w->bits;
    q->granularity = w->group > 0                         ? DT_PER_GROUP
                     : strcmp(w->strategy, "tensor") == 0 ? DT_PER_TENSOR
                                                          : DT_PER_CHANNEL;
    q->group_size = w->group;
    q->scheme = l->real >= 0    ? l->real
                : !w->symmetric ? DT_SCHEME_ASYMMETRIC
                : is_q4_0(l)    ? DT_SCHEME_Q4_0
                                : DT_SCHEME_SYMMETRIC;
    q->scale_dtype = q->scheme == DT_SCHEME_Q4_0 ? DT_SCALE_F16 : DT_SCALE_F32;
    l->quant.path = l->path;
    l->quant.has_weight = true;
    l->quant.weight.state = DT__PACKED;
    l->quant.weight.range_state = DT__FIXED;
    l->quant.weight.shape = (dt_ints){ .n = 2, .v = { l->rows, l->columns } };
    l->quant.has_input = x->given;
    l->quant.input.enabled = true;
    describe_input(l);
}

/* Adds a tensor of the rank and extents of `like` to the folder. */
static dt_status add_tensor(layer *l, const char *suffix, const char *dtype,
                            const dt_file_entry *like, void **data)
{
    dt_file *to = l->folder;
    const dt__file_dtype *d = dt__file_dtype_of(dtype);
    const size_t n = strlen(l->path) + strlen(suffix) + 1;
    char *name = dt__block_list_add(to->ctx, &to->arena, n);
    int64_t *dims = dt__block_list_add(to->ctx, &to->arena, 2 * sizeof *dims);
    dt_file_entry e = { .dtype = d->name, .rank = like->rank, .count = 1 };
    for (int i = 0; i < like->rank && dims != NULL; i++) e.count *= dims[i] = like->dims[i];
    if (name == NULL || dims == NULL || !dt__file_bytes(d, e.count, &e.bytes)) return DT_ERR_NOMEM;
    *data = dt__block_list_add(to->ctx, &to->arena, e.bytes);
    if (*data == NULL) return DT_ERR_NOMEM;
    snprintf(name, n, "%s%s", l->path, suffix);
    e.name = name;
    e.dims = dims;
    e.data = *data;
    to->entry[to->count++] = e;
    return DT_OK;
}

static dt_status add_part(layer *l, const char *suffix, const char *dtype, int64_t columns,
                          void **data)
{
    const int64_t dims[] = { l->rows, columns };
    return add_tensor(l, suffix, dtype, &(dt_file_entry){ .rank = 2, .dims = dims }, data);
}

static dt_status add_scales(layer *l)
{
    void *data;
    const bool half = l->quant.weight.scheme.scale_dtype == DT_SCALE_F16;
    DT__TRY(add_part(l, ".weight.scale", half ? "F16" : "F32", l->groups, &data));
    for (int64_t i = 0; i < l->rows * l->groups; i++) {
        const float x = held_scale(l, i);
        const uint16_t h = dt__f32_to_f16(x);
        if (half) memcpy((char *)data + i * 2, &h, sizeof h);
        else memcpy((char *)data + i * 4, &x, sizeof x);
    }
    if (l->zero == NULL) return DT_OK;
    DT__TRY(add_part(l, ".weight.zero_point", "I8", l->groups, &data));
    for (int64_t r = 0; r < l->rows; r++) {
        for (int64_t g = 0; g < l->groups; g++) {
            ((int8_t *)data)[r * l->groups + g] = (int8_t)zero_at(l, r, g);
        }
    }
    return DT_OK;
}

/* Adds the global scale of an input in NVFP4. */
static dt_status add_input(layer *l)
{
    void *data;
    float global;
    if (l->input == NULL) return DT_OK;
    const dt_file_entry *e = l->input;
    if (e->count == 1 && strcmp(e->dtype, "F32") == 0) {
        memcpy(&global, e->data, sizeof global);
        if (global >= 0x1p-126f && global <= 0x1p116f) {
            const int64_t one = 1;
            const dt_file_entry like = { .rank = 1, .dims = &one };
            DT__TRY(add_tensor(l, ".input.scale", "F32", &like, &data));
            memcpy(data, &global, sizeof global);
            return DT_OK;
        }
    }
    return refuse(l, "input_global_scale must be F32 [1], from 2^-126 to 2^116");
}

static dt_status add_layer(layer *l, dt__chars *quant)
{
    void *data;
    describe(l);
    DT__TRY(add_input(l));
    const dt__rows_form form = { .quant = &l->quant.weight.scheme,
                                 .rows = l->rows,
                                 .columns = l->columns };
    const int64_t bytes = dt__row_bytes(&form);
    DT__TRY(add_part(l, ".weight.codes", "U8", bytes, &data));
    DT__TRY(make_codes(l, data, bytes));
    DT__TRY(add_scales(l));
    dt__put_text(quant, quant->used == 0 ? "{" : ",");
    DT__PUT_ALL(quant, DT__QUOTED(l->path), ":");
    dt__put_module_quant(quant, &l->quant);
    return DT_OK;
}

/* Adds an expert's dequantized values. */
static dt_status add_values(layer *l)
{
    void *data;
    DT__TRY(add_part(l, ".weight", "F32", l->columns, &data));
    for (int64_t r = 0; r < l->rows; r++) {
        for (int64_t k = 0; k < l->columns; k++) {
            const int64_t g = k / dt__ceil_div(l->columns, l->groups);
            int code;
            DT__TRY(code_of(l, r, k, &code));
            const int zero = l->zero == NULL ? 0 : zero_at(l, r, g);
            const float q = l->real == DT_SCHEME_MXFP8 ? dt__small_value(&dt__e4m3, (uint8_t)code)
                                                       : (float)(code - zero);
            const float x = q * scale_at(l, r * l->groups + g);
            memcpy((char *)data + (r * l->columns + k) * 4, &x, sizeof x);
        }
    }
    return DT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static dt_status open_layer(layer *l, const dt__hf_groups *g)
{
    l->codes = find(l, ".weight_packed");
    l->packed = l->codes != NULL;
    if (!l->packed) l->codes = find(l, ".weight");
    l->scale = find(l, ".weight_scale");
    l->zero = find(l, ".weight_zero_point");
    l->shape = find(l, ".weight_shape");
    l->global = find(l, ".weight_global_scale");
    l->input = find(l, ".input_global_scale");
    if (find(l, ".weight_g_idx") != NULL) {
        return dt_fail(l->folder->ctx, DT_ERR_UNSUPPORTED,
                       "%s: weight of '%.*s': ordered columns (weight_g_idx) are not supported",
                       l->part->path, 90, l->path);
    }
    DT__TRY(find_group(l, g));
    l->real = dt__hf_float_scheme(&l->group->weight);
    if (dt__hf_input_scheme(&l->group->input) != DT_SCHEME_NVFP4) l->input = NULL;
    const bool bytes = l->real == DT_SCHEME_MXFP8, halves = l->real >= 0 && !bytes;
    const char *dtype = bytes ? "F8_E4M3" : halves ? "U8" : l->packed ? "I32" : "I8";
    const bool there = l->codes != NULL && strcmp(l->codes->dtype, dtype) == 0;
    if (there && (l->packed ? !bytes : !halves)) return measure(l);
    return refuse(l, "it has parts of codes; %s must be in the same file",
                  bytes    ? "weight in F8_E4M3"
                  : halves ? "weight_packed in U8"
                           : "weight_packed in I32 or weight in I8");
}

dt_status dt__hf_take_integers(dt_file *folder, const dt_file *part, const dt_file_entry *e,
                               const dt__hf_groups *g, dt__chars *quant, bool *taken)
{
    size_t n;
    layer l = { .folder = folder, .part = part };
    *taken = g->n > 0 && is_part(e, &n);
    if (!*taken) return DT_OK;
    char *path = dt__block_list_add(folder->ctx, &folder->arena, n + 1);
    if (path == NULL) return DT_ERR_NOMEM;
    memcpy(path, e->name, n);
    path[n] = 0;
    l.path = path;
    const dt_file_entry *first = find(&l, ".weight_packed");
    if (first == NULL) first = find(&l, ".weight");
    if (first != NULL && first != e) return DT_OK; /* the layer was read with its first tensor */
    DT__TRY(open_layer(&l, g));
    return strstr(path, ".experts.") != NULL ? add_values(&l) : add_layer(&l, quant);
}
