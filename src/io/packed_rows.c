/* The canonical form of an integer weight W, [rows, columns] by its row map, with groups of
 * consecutive columns:
 *
 *     W.codes       U8 [rows, ceil(columns * b / 8)], b = 2, 4 or 8 for 2, 3...4, 5...8 bits: two's
 *                   complement, the first code in the lowest bits, a row padded with zeros
 *     W.scale       [rows, groups] in the scheme's scale dtype
 *     W.zero_point  I8 [rows, groups], where the rule has one
 *
 * An unsigned scheme is stored with 2^(bits-1) subtracted from codes and zero points. */
#include "core/half.h"
#include "io/model.h"
#include "qat/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const scale_dtypes[] = {
    [DT_SCALE_F32] = "F32", [DT_SCALE_F16] = "F16", [DT_SCALE_BF16] = "BF16"
};

int dt__storage_bits(int64_t bits) { return bits <= 2 ? 2 : bits <= 4 ? 4 : 8; }

static int64_t row_bytes(const dt__panel_layout *l)
{
    return dt__ceil_div(l->columns, 8 / dt__storage_bits(l->bits));
}

/* ---- bits ------------------------------------------------------------------------------------ */

static void pack_row(int bits, int64_t n, const int8_t *codes, uint8_t *bytes)
{
    const int per_byte = 8 / bits;
    const unsigned mask = 0xffU >> (8 - bits);
    for (int64_t k = 0; k < n; k += per_byte) {
        unsigned byte = 0;
        for (int i = 0; i < per_byte && k + i < n; i++) {
            byte |= ((unsigned)codes[k + i] & mask) << (i * bits);
        }
        bytes[k / per_byte] = (uint8_t)byte;
    }
}

static void unpack_row(int bits, int64_t n, const uint8_t *bytes, int8_t *codes)
{
    const int per_byte = 8 / bits;
    const int span = 1 << bits;
    for (int64_t k = 0; k < n; k++) {
        const int code = bytes[k / per_byte] >> (k % per_byte * bits) & (span - 1);
        codes[k] = (int8_t)(code >= span / 2 ? code - span : code);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static dt_status add_part(dt__saving *s, const char *name, const dt_file_entry *part)
{
    dt_file_entry e = *part;
    char *whole = dt__format_string(s->ctx, "%s%s", name, part->name);
    if (whole == NULL) return DT_ERR_NOMEM;
    e.name = whole;
    const dt_status status = dt_writer_add_bytes(s->writer, &e);
    dt__release(s->ctx, whole);
    return status;
}

/* Scales in their own dtype, in place: no form is wider than the floats that they come from. */
static void narrow_scales(int dtype, int64_t n, float *scale)
{
    unsigned char *to = (unsigned char *)scale;
    for (int64_t i = 0; i < n && dtype != DT_SCALE_F32; i++) {
        const uint16_t half =
            dtype == DT_SCALE_F16 ? dt__f32_to_f16(scale[i]) : dt__f32_to_bf16(scale[i]);
        memcpy(to + (size_t)i * sizeof half, &half, sizeof half);
    }
}

dt_status dt__packed_add(dt__saving *s, const char *name, const dt_tensor *x)
{
    const dt__packed *packed = x->ext;
    const dt__panel_layout *l = &packed->codes->layout;
    const int64_t blocks = l->rows * l->groups, bytes = row_bytes(l);
    const bool has_zero = dt__scheme_of(packed->quant.rule)->has_zero;
    int8_t *codes = dt__saving_keep(s, (size_t)x->count);
    uint8_t *out = dt__saving_keep(s, (size_t)(l->rows * bytes));
    float *scale = dt__saving_keep(s, (size_t)blocks * sizeof *scale);
    int8_t *zero = has_zero ? dt__saving_keep(s, (size_t)blocks) : NULL;
    if (codes == NULL || out == NULL || scale == NULL || (has_zero && zero == NULL)) {
        return DT_ERR_NOMEM;
    }
    dt__codes_to_rows(packed->codes,
                      &(dt_code_rows){ .codes = codes, .scale = scale, .zero_point = zero });
    for (int64_t r = 0; r < l->rows; r++) {
        pack_row(dt__storage_bits(l->bits), l->columns, codes + r * l->columns, out + r * bytes);
    }
    narrow_scales(l->scale_dtype, blocks, scale);
    const int64_t code_dims[2] = { l->rows, bytes }, block_dims[2] = { l->rows, l->groups };
    DT__TRY(
        add_part(s, name,
                 &(dt_file_entry){
                     .name = ".codes", .dtype = "U8", .rank = 2, .dims = code_dims, .data = out }));
    DT__TRY(add_part(s, name,
                     &(dt_file_entry){ .name = ".scale",
                                       .dtype = scale_dtypes[l->scale_dtype],
                                       .rank = 2,
                                       .dims = block_dims,
                                       .data = scale }));
    if (!has_zero) return DT_OK;
    return add_part(
        s, name,
        &(dt_file_entry){
            .name = ".zero_point", .dtype = "I8", .rank = 2, .dims = block_dims, .data = zero });
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A weight that is being read. */
typedef struct reading {
    const dt__packed_place *place;
    const dt_quant *quant;
    dt__panel_layout layout;
    dt_code_rows rows;
} reading;

static dt_status refuse(const reading *r, const char *format, ...) DT_PRINTF(2, 3);

static dt_status refuse(const reading *r, const char *format, ...)
{
    char rule[256], shown[DT__SHOWN];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    const dt_file *file = r->place->file;
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: weight '%s': %s", file->path,
                   dt__shown(r->place->name, shown), rule);
}

/* The part with its dtype and shape checked. */
static dt_status find_part(const reading *r, const char *suffix, const char *dtype, int64_t columns,
                           const dt_file_entry **out)
{
    DT__TRY(dt__file_part(r->place->file, r->place->name, suffix, out));
    const dt_file_entry *e = *out;
    if (e == NULL) return refuse(r, "its %s is missing", suffix + 1);
    if (strcmp(e->dtype, dtype) != 0) {
        return refuse(r, "its %s is %s; the scheme wants %s", suffix + 1, e->dtype, dtype);
    }
    if (e->rank == 2 && e->dims[0] == r->layout.rows && e->dims[1] == columns) return DT_OK;
    char dims[160];
    if (e->rank > DT_MAX_RANK) {
        snprintf(dims, sizeof dims, "of rank %d", e->rank);
    } else {
        dt__dims_text(e->rank, e->dims, dims, sizeof dims);
    }
    return refuse(r, "its %s is %s; [%lld,%lld] is wanted", suffix + 1, dims,
                  (long long)r->layout.rows, (long long)columns);
}

static dt_status read_codes(reading *r)
{
    const dt__panel_layout *l = &r->layout;
    const int bits = dt__storage_bits(l->bits);
    const int64_t bytes = row_bytes(l);
    const int padding = (int)(bytes * (8 / bits) - l->columns) * bits;
    const int qmin = dt__qmin(r->quant), qmax = dt__qmax(r->quant);
    const dt_file_entry *e;
    DT__TRY(find_part(r, ".codes", "U8", bytes, &e));
    const uint8_t *from = e->data;
    for (int64_t row = 0; row < l->rows && bytes > 0; row++, from += bytes) {
        int8_t *codes = r->rows.codes + row * l->columns;
        unpack_row(bits, l->columns, from, codes);
        if (padding > 0 && from[bytes - 1] >> (8 - padding) != 0) {
            return refuse(r, "row %lld: the bits behind its last code must be 0", (long long)row);
        }
        for (int64_t k = 0; k < l->columns; k++) {
            if (codes[k] >= qmin && codes[k] <= qmax) continue;
            return refuse(r, "row %lld, column %lld: code %d is none of %d bits", (long long)row,
                          (long long)k, codes[k], l->bits);
        }
    }
    return DT_OK;
}

static float scale_at(int dtype, const unsigned char *from, int64_t i)
{
    float x;
    uint16_t half;
    if (dtype == DT_SCALE_F32) {
        memcpy(&x, from + (size_t)i * sizeof x, sizeof x);
        return x;
    }
    memcpy(&half, from + (size_t)i * sizeof half, sizeof half);
    return dtype == DT_SCALE_F16 ? dt__f16_to_f32(half) : dt__bf16_to_f32(half);
}

/* Schemes make positive scales, none below the smallest normal number; but q4_0 has either sign,
 * and 0 for a block of zeros. The image of every code must be finite. */
static dt_status check_scale(const reading *r, int64_t block)
{
    const float s = r->rows.scale[block];
    const int qmin = dt__qmin(r->quant), qmax = dt__qmax(r->quant);
    const int zero = r->rows.zero_point == NULL ? 0 : r->rows.zero_point[block];
    const int64_t furthest = dt__max_i64(-qmin, dt__max_i64(qmax - zero, zero - qmin));
    const long long row = block / r->layout.groups, group = block % r->layout.groups;
    const float least = r->layout.scale_dtype == DT_SCALE_F16 ? 0x1p-14f : 0x1p-126f;
    const bool either_sign = dt__scheme_of(r->quant->rule)->fp16_blocks;
    if (!isfinite((float)furthest * s)) {
        return refuse(r, "row %lld, group %lld: its scale gives no finite values", row, group);
    }
    if (either_sign || s >= least) return DT_OK;
    return refuse(r, "row %lld, group %lld: scale %g; at least %g is wanted", row, group, (double)s,
                  (double)least);
}

/* Granularity tensor has one scale and zero point, which every row repeats. */
static dt_status check_repeats(const reading *r)
{
    const int8_t *zero = r->rows.zero_point;
    if (r->quant->granularity != DT_PER_TENSOR) return DT_OK;
    for (int64_t i = 1; i < r->layout.rows * r->layout.groups; i++) {
        if (r->rows.scale[i] == r->rows.scale[0] && (zero == NULL || zero[i] == zero[0])) continue;
        return refuse(r, "row %lld: granularity tensor, but its scale differs from row 0",
                      (long long)i);
    }
    return DT_OK;
}

/* A block of scale 0 must hold zeros: what q4_0 writes, and what any other code would lose. */
static dt_status check_zeros(const reading *r)
{
    const dt__panel_layout *l = &r->layout;
    for (int64_t row = 0; row < l->rows; row++) {
        const float *scale = r->rows.scale + row * l->groups;
        for (int64_t k = 0; k < l->columns; k++) {
            if (scale[k / l->group] != 0 || r->rows.codes[row * l->columns + k] == 0) continue;
            return refuse(r, "row %lld, column %lld: a code in a group of scale 0", (long long)row,
                          (long long)k);
        }
    }
    return DT_OK;
}

static dt_status read_zero(reading *r)
{
    const dt_file_entry *e;
    if (r->rows.zero_point == NULL) {
        DT__TRY(dt__file_part(r->place->file, r->place->name, ".zero_point", &e));
        return e == NULL ? DT_OK : refuse(r, "a zero_point, of which its rule has none");
    }
    DT__TRY(find_part(r, ".zero_point", "I8", r->layout.groups, &e));
    if (e->bytes > 0) memcpy(r->rows.zero_point, e->data, e->bytes);
    for (int64_t i = 0; i < e->count; i++) {
        const int zero = r->rows.zero_point[i];
        if (zero >= dt__qmin(r->quant) && zero <= dt__qmax(r->quant)) continue;
        return refuse(r, "row %lld: zero point %d is no code of %d bits",
                      (long long)(i / r->layout.groups), zero, r->layout.bits);
    }
    return DT_OK;
}

static dt_status read_scales(reading *r)
{
    const dt_file_entry *e;
    const int dtype = r->layout.scale_dtype;
    DT__TRY(find_part(r, ".scale", scale_dtypes[dtype], r->layout.groups, &e));
    for (int64_t i = 0; i < e->count; i++) {
        r->rows.scale[i] = scale_at(dtype, e->data, i);
        DT__TRY(check_scale(r, i));
    }
    return check_repeats(r);
}

static dt_status read_rows(reading *r, dt__packed *packed)
{
    dt_ctx *ctx = r->place->file->ctx;
    const int64_t blocks = r->layout.rows * r->layout.groups;
    const bool has_zero = dt__scheme_of(r->quant->rule)->has_zero;
    r->rows.codes = dt__alloc_array(ctx, r->layout.rows, (size_t)r->layout.columns);
    r->rows.scale = dt__alloc_array(ctx, blocks, sizeof(float));
    if (has_zero) r->rows.zero_point = dt__alloc_array(ctx, blocks, 1);
    if (r->rows.codes == NULL || r->rows.scale == NULL ||
        (has_zero && r->rows.zero_point == NULL)) {
        return DT_ERR_NOMEM;
    }
    DT__TRY(read_codes(r));
    DT__TRY(read_zero(r));
    DT__TRY(read_scales(r));
    DT__TRY(check_zeros(r));
    DT__TRY(dt__codes_from_rows(ctx, &r->layout, packed->simulated, &r->rows, &packed->codes));
    packed->codes->map = dt__described_map(r->place->quant);
    return DT_OK;
}

/* The shape comes from the metadata: before memory is asked for, the file must hold its codes. */
static dt_status measure(reading *r)
{
    dt_ctx *ctx = r->place->file->ctx;
    const dt_ints *shape = &r->place->quant->weight.shape;
    const dt__row_map map = dt__described_map(r->place->quant);
    const dt_file_entry *e;
    int64_t dims[DT_MAX_RANK];
    const int rank = dt__matrix_dims(&map, shape->n, shape->v, dims);
    const dt_status s = dt__weight_layout(ctx, r->quant, rank, dims, &r->layout);
    if (s == DT_ERR_UNSUPPORTED || s == DT_ERR_SHAPE) {
        char text[256];
        snprintf(text, sizeof text, "%s", dt_error(ctx));
        return refuse(r, "%s", text);
    }
    DT__TRY(s);
    return find_part(r, ".codes", "U8", row_bytes(&r->layout), &e);
}

dt_status dt__packed_read(const dt__packed_place *place, dt__packed **out)
{
    dt_ctx *ctx = place->file->ctx;
    reading r = { .place = place, .quant = &place->quant->weight.scheme };
    *out = NULL;
    DT__TRY(measure(&r));
    dt__packed *packed = dt__alloc(ctx, sizeof *packed);
    if (packed == NULL) return DT_ERR_NOMEM;
    *packed = (dt__packed){ .quant = *r.quant, .simulated = place->quant->simulated };
    const dt_status s = read_rows(&r, packed);
    dt__release(ctx, r.rows.codes);
    dt__release(ctx, r.rows.scale);
    dt__release(ctx, r.rows.zero_point);
    if (s != DT_OK) {
        dt__release(ctx, packed);
        return s;
    }
    *out = packed;
    return DT_OK;
}
