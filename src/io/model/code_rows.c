/* The file format of an integer matrix W, [rows, columns] in groups of columns that share a scale:
 *
 *     W.codes       U8 [rows, ceil(columns * b / 8)], b = 1, 2, 4 or 8 for 1, 2, 3...4, 5...8 bits:
 *                   two's complement; for a scheme with levels, the index of the code's level; the
 *                   first code in the lowest bits, a row padded with zeros;
 *                   or I8 [rows, columns], one code per byte
 *     W.scale       [rows, groups] in the scheme's scale dtype
 *     W.zero_point  I8 [rows, groups], if the scheme has zero points
 *     W.g_idx       I32 [columns], or [op groups, columns]: the group of each column, if groups are
 *                   not consecutive columns
 *
 * For an unsigned scheme 2^(bits-1) is subtracted from codes and zero points. */
#include "io/model/code_rows.h"
#include "core/text/half.h"
#include "core/tensor.h"
#include "io/model/model.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CODES, SCALE, ZERO, G_IDX };

const char *const dt__row_suffix[DT__ROW_PARTS] = { ".codes", ".scale", ".zero_point", ".g_idx" };

static const char *const scale_dtypes[] = {
    [DT_SCALE_F32] = "F32", [DT_SCALE_F16] = "F16", [DT_SCALE_BF16] = "BF16"
};

static const char *scale_dtype(const dt__rows_form *f)
{
    return scale_dtypes[dt__scale_dtype(f->quant)];
}

int dt__storage_bits(int64_t bits) { return bits <= 1 ? 1 : bits <= 2 ? 2 : bits <= 4 ? 4 : 8; }

int64_t dt__row_bytes(const dt__rows_form *f)
{
    return f->bytes ? f->columns : dt__ceil_div(f->columns, 8 / dt__storage_bits(f->quant->bits));
}

/* ---- bits ------------------------------------------------------------------------------------ */

void dt__pack_codes(int bits, int64_t n, const int8_t *codes, int offset, uint8_t *bytes)
{
    const int per_byte = 8 / bits;
    const unsigned mask = 0xffU >> (8 - bits);
    for (int64_t k = 0; k < n; k += per_byte) {
        unsigned byte = 0;
        for (int i = 0; i < per_byte && k + i < n; i++) {
            byte |= ((unsigned)(codes[k + i] + offset) & mask) << (i * bits);
        }
        bytes[k / per_byte] = (uint8_t)byte;
    }
}

/* The signed code in the low `bits` bits of x. */
static inline int8_t signed_code(int bits, int x)
{
    const int half = 1 << (bits - 1);
    return (int8_t)(((x & (2 * half - 1)) ^ half) - half);
}

/* Unpacks whole bytes in a loop of fixed length if `bits` is a constant. */
static inline void unpack(int bits, int64_t n, const uint8_t *bytes, int8_t *codes)
{
    const int each = 8 / bits;
    for (int64_t b = 0; b < n / each; b++) {
        for (int i = 0; i < each; i++) {
            codes[b * each + i] = signed_code(bits, bytes[b] >> (i * bits));
        }
    }
    for (int64_t k = n - n % each; k < n; k++) {
        codes[k] = signed_code(bits, bytes[n / each] >> (k % each * bits));
    }
}

static void unpack_row(int bits, int64_t n, const uint8_t *bytes, int8_t *codes)
{
    if (bits == 4) unpack(4, n, bytes, codes);
    else unpack(bits, n, bytes, codes);
}

/* Replaces codes by the indices of their levels. */
static void place_codes(const dt__levels *l, int64_t n, int8_t *codes)
{
    for (int64_t k = 0; k < n; k++) {
        int place = 0;
        while (place < l->n - 1 && l->code[place] < codes[k]) place++;
        codes[k] = (int8_t)place;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Rounds scales to their dtype in place; no scale dtype is wider than float. */
static void narrow_scales(int dtype, int64_t n, float *scale)
{
    unsigned char *to = (unsigned char *)scale;
    for (int64_t i = 0; i < n && dtype != DT_SCALE_F32; i++) {
        const uint16_t half =
            dtype == DT_SCALE_F16 ? dt__f32_to_f16(scale[i]) : dt__f32_to_bf16(scale[i]);
        memcpy(to + (size_t)i * sizeof half, &half, sizeof half);
    }
}

/* Dtype and shape of a part. */
static dt_file_entry form_of(const dt__rows_form *f, int part, int64_t dims[2])
{
    const char *const dtypes[] = { f->bytes ? "I8" : "U8", scale_dtype(f), "I8", "I32" };
    const bool line = part == G_IDX && f->op_groups == 1;
    dims[0] = line ? f->columns : part == G_IDX ? f->op_groups : f->rows;
    dims[1] = part == CODES ? dt__row_bytes(f) : part == G_IDX ? f->columns : f->groups;
    return (dt_file_entry){
        .name = dt__row_suffix[part], .dtype = dtypes[part], .rank = line ? 1 : 2, .dims = dims
    };
}

void dt__row_parts_of(const dt__rows_form *f, const dt_code_rows *rows, uint8_t *packed,
                      dt__row_parts *out)
{
    const int64_t bytes = dt__row_bytes(f);
    const dt__levels *levels = dt__levels_of(f->quant);
    if (levels != NULL && levels->real == NULL && !f->bytes)
        place_codes(levels, f->rows * f->columns, rows->codes);
    for (int64_t r = 0; r < f->rows && !f->bytes; r++) {
        dt__pack_codes(dt__storage_bits(f->quant->bits), f->columns, rows->codes + r * f->columns,
                       0, packed + r * bytes);
    }
    narrow_scales(dt__scale_dtype(f->quant), f->rows * f->groups, rows->scale);
    const void *const data[] = { f->bytes ? (const void *)rows->codes : packed, rows->scale,
                                 rows->zero_point, rows->group_of };
    for (int i = 0; i < DT__ROW_PARTS; i++) {
        out->part[i] = form_of(f, i, out->dims[i]);
        out->part[i].data = data[i];
    }
}

dt_status dt__row_parts_add(dt_ctx *ctx, dt_writer *w, const dt__groups *groups, const char *name,
                            const dt__row_parts *p)
{
    dt_status s = DT_OK;
    for (int i = 0; i < DT__ROW_PARTS && s == DT_OK; i++) {
        dt_file_entry e = p->part[i];
        if (e.data == NULL) continue;
        char *whole = dt__format_string(ctx, "%s%s", name, e.name);
        e.name = whole;
        s = whole == NULL ? DT_ERR_NOMEM : dt__experts_add(w, groups, &e);
        dt__release(ctx, whole);
    }
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reading {
    const dt_file *file;
    const char *name;
    const dt__rows_form *form;
    dt_code_rows *rows;
} reading;

#define REFUSE(r, ...) dt__rows_refuse((r)->file, (r)->name, __VA_ARGS__)

dt_status dt__rows_refuse(const dt_file *file, const char *name, const char *format, ...)
{
    char rule[256], shown[DT__SHOWN];
    DT__FORMAT(rule, sizeof rule, format);
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: weight '%s': %s", file->path,
                   dt__shown(name, shown), rule);
}

/* Finds a part and checks its dtype and shape. */
static dt_status find_part(const reading *r, int part, const dt_file_entry **out)
{
    int64_t dims[2];
    char found[160], wanted[160];
    const dt_file_entry form = form_of(r->form, part, dims);
    const char *what = form.name + 1;
    DT__TRY(dt__file_part(r->file, r->name, form.name, out));
    const dt_file_entry *e = *out;
    if (e == NULL) return REFUSE(r, "its %s is missing", what);
    if (strcmp(e->dtype, form.dtype) != 0) {
        return REFUSE(r, "its %s is %s; the scheme requires %s", what, e->dtype, form.dtype);
    }
    if (e->rank == form.rank && memcmp(e->dims, dims, (size_t)form.rank * sizeof dims[0]) == 0) {
        return DT_OK;
    }
    if (e->rank > DT_MAX_RANK) {
        snprintf(found, sizeof found, "of rank %d", e->rank);
    } else {
        dt__dims_text(e->rank, e->dims, found, sizeof found);
    }
    dt__dims_text(form.rank, dims, wanted, sizeof wanted);
    return REFUSE(r, "its %s is %s; it must be %s", what, found, wanted);
}

/* Refuses a part that this scheme must not have. */
static dt_status refuse_part(const reading *r, int part, const char *words)
{
    const dt_file_entry *e;
    DT__TRY(dt__file_part(r->file, r->name, dt__row_suffix[part], &e));
    return e == NULL ? DT_OK : REFUSE(r, "%s", words);
}

/* Replaces the index of a level by its code; false if there is no such level. */
static bool take_level(const dt__levels *l, const dt__rows_form *f, int bits, int8_t *code)
{
    if (l->real != NULL) return dt__small_has(l->real, (uint8_t)*code);
    if (f->bytes) return l->code[0] <= *code && dt__level_of(l, *code) == *code;
    const int place = *code & ((1 << bits) - 1);
    if (place >= l->n) return false;
    *code = l->code[place];
    return true;
}

/* The loop has no branch, as models have billions of codes. */
static bool are_within(int64_t n, const int8_t *code, int least, int most)
{
    int outside = 0;
    for (int64_t k = 0; k < n; k++) outside |= (code[k] < least) | (code[k] > most);
    return outside == 0;
}

static dt_status read_row(const reading *r, int64_t row, const uint8_t *from)
{
    const dt__rows_form *f = r->form;
    const int bits = f->bytes ? 8 : dt__storage_bits(f->quant->bits);
    const int64_t bytes = dt__row_bytes(f);
    const int padding = (int)(bytes * (8 / bits) - f->columns) * bits;
    int8_t *codes = r->rows->codes + row * f->columns;
    unpack_row(bits, f->columns, from, codes);
    if (padding > 0 && from[bytes - 1] >> (8 - padding) != 0) {
        return REFUSE(r, "row %lld: the bits behind its last code must be 0", (long long)row);
    }
    const dt__levels *levels = dt__levels_of(f->quant);
    const int least = dt__qmin(f->quant), most = dt__qmax(f->quant);
    if (levels == NULL && are_within(f->columns, codes, least, most)) return DT_OK;
    for (int64_t k = 0; k < f->columns; k++) {
        if (levels != NULL && take_level(levels, f, bits, codes + k)) continue;
        if (levels == NULL && codes[k] >= least && codes[k] <= most) continue;
        return REFUSE(r, "row %lld, column %lld: code %d is none of %d bits of scheme %s",
                      (long long)row, (long long)k, codes[k], (int)f->quant->bits,
                      dt__scheme_of(f->quant->scheme)->name);
    }
    return DT_OK;
}

static dt_status read_codes(const reading *r)
{
    const int64_t bytes = dt__row_bytes(r->form);
    const dt_file_entry *e;
    DT__TRY(find_part(r, CODES, &e));
    const uint8_t *from = e->data;
    for (int64_t row = 0; row < r->form->rows && bytes > 0; row++) {
        DT__TRY(read_row(r, row, from + row * bytes));
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

/* Scales are positive and normal. Exception: q4_0 has scales of either sign, and 0 for a block of
 * zeros. The dequantized value of every code must be finite. */
static dt_status check_scale(const reading *r, int64_t block)
{
    const dt_quant_spec *q = r->form->quant;
    const float s = r->rows->scale[block];
    const int qmin = dt__qmin(q), qmax = dt__qmax(q);
    const int zero = r->rows->zero_point == NULL ? 0 : r->rows->zero_point[block];
    const int64_t furthest = dt__max_i64(-qmin, dt__max_i64(qmax - zero, zero - qmin));
    const long long row = block / r->form->groups, group = block % r->form->groups;
    const float least = dt__scale_dtype(q) == DT_SCALE_F16 ? 0x1p-14f : 0x1p-126f;
    const bool either_sign = dt__scheme_of(q->scheme)->fp16_blocks;
    if (!isfinite((float)furthest * s)) {
        return REFUSE(r, "row %lld, group %lld: its scale gives no finite values", row, group);
    }
    if (either_sign || s >= least) return DT_OK;
    return REFUSE(r, "row %lld, group %lld: scale %g; it must be at least %g", row, group,
                  (double)s, (double)least);
}

/* With granularity tensor all rows (for a grouped weight: of an expert) must have the same scale
 * and zero point. */
static dt_status check_repeats(const reading *r)
{
    const float *scale = r->rows->scale;
    const int8_t *zero = r->rows->zero_point;
    if (r->form->quant->granularity != DT_PER_TENSOR) return DT_OK;
    const int64_t each = r->form->rows / dt__max_i64(1, r->form->experts);
    for (int64_t i = 1; i < r->form->rows * r->form->groups; i++) {
        const int64_t first = i / each * each;
        if (scale[i] == scale[first] && (zero == NULL || zero[i] == zero[first])) continue;
        return REFUSE(r, "row %lld: granularity tensor, but its scale differs from row %lld",
                      (long long)i, (long long)first);
    }
    return DT_OK;
}

/* The group of a column. */
static int64_t group_at(const reading *r, int64_t row, int64_t column)
{
    const dt__rows_form *f = r->form;
    if (r->rows->group_of == NULL) return column / f->group;
    return r->rows->group_of[row / (f->rows / f->op_groups) * f->columns + column];
}

/* A block of scale 0 must hold zeros, as q4_0 writes: other codes would have no effect. */
static dt_status check_zeros(const reading *r)
{
    const dt__rows_form *f = r->form;
    if (!dt__scheme_of(f->quant->scheme)->fp16_blocks) return DT_OK;
    for (int64_t row = 0; row < f->rows; row++) {
        const float *scale = r->rows->scale + row * f->groups;
        for (int64_t k = 0; k < f->columns; k++) {
            if (r->rows->codes[row * f->columns + k] == 0) continue;
            if (scale[group_at(r, row, k)] != 0) continue;
            return REFUSE(r, "row %lld, column %lld: a code in a group of scale 0", (long long)row,
                          (long long)k);
        }
    }
    return DT_OK;
}

static dt_status read_zero(const reading *r)
{
    const dt_file_entry *e;
    int8_t *zero = r->rows->zero_point;
    if (zero == NULL) return refuse_part(r, ZERO, "a zero_point, of which its rule has none");
    DT__TRY(find_part(r, ZERO, &e));
    if (e->bytes > 0) memcpy(zero, e->data, e->bytes);
    for (int64_t i = 0; i < e->count; i++) {
        if (zero[i] >= dt__qmin(r->form->quant) && zero[i] <= dt__qmax(r->form->quant)) continue;
        return REFUSE(r, "row %lld: zero point %d is not a code of %d bits",
                      (long long)(i / r->form->groups), zero[i], (int)r->form->quant->bits);
    }
    return DT_OK;
}

static dt_status read_scales(const reading *r)
{
    const dt_file_entry *e;
    const int dtype = dt__scale_dtype(r->form->quant);
    DT__TRY(find_part(r, SCALE, &e));
    for (int64_t i = 0; i < e->count; i++) {
        r->rows->scale[i] = scale_at(dtype, e->data, i);
        DT__TRY(check_scale(r, i));
    }
    return check_repeats(r);
}

/* Every group must have as many columns as if columns were consecutive. */
static dt_status check_groups(const reading *r, const int32_t *group_of, int64_t *count)
{
    const dt__rows_form *f = r->form;
    memset(count, 0, (size_t)f->groups * sizeof *count);
    for (int64_t k = 0; k < f->columns; k++) {
        if (group_of[k] >= 0 && group_of[k] < f->groups) {
            count[group_of[k]]++;
            continue;
        }
        return REFUSE(r, "g_idx of column %lld is %d; there are %lld groups", (long long)k,
                      (int)group_of[k], (long long)f->groups);
    }
    for (int64_t g = 0; g < f->groups; g++) {
        const int64_t wanted = dt__min_i64(f->group, f->columns - g * f->group);
        if (count[g] == wanted) continue;
        return REFUSE(r, "g_idx puts %lld columns into group %lld; there must be %lld",
                      (long long)count[g], (long long)g, (long long)wanted);
    }
    return DT_OK;
}

static dt_status read_order(const reading *r)
{
    const dt__rows_form *f = r->form;
    const dt_file_entry *e;
    if (!f->ordered) return refuse_part(r, G_IDX, "a g_idx, of which its metadata say nothing");
    DT__TRY(find_part(r, G_IDX, &e));
    if (e->bytes > 0) memcpy(r->rows->group_of, e->data, e->bytes);
    int64_t *count = dt__alloc_array(r->file->ctx, f->groups, sizeof *count);
    dt_status s = count == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t p = 0; p < f->op_groups && s == DT_OK; p++) {
        s = check_groups(r, r->rows->group_of + p * f->columns, count);
    }
    dt__release(r->file->ctx, count);
    return s;
}

dt_status dt__rows_find(const dt_file *file, const char *name, const dt__rows_form *f)
{
    const dt_file_entry *e;
    const reading r = { .file = file, .name = name, .form = f };
    return find_part(&r, CODES, &e);
}

dt_status dt__rows_read(const dt_file *file, const char *name, const dt__rows_form *f,
                        dt_code_rows *out)
{
    dt_ctx *ctx = file->ctx;
    const reading r = { .file = file, .name = name, .form = f, .rows = out };
    const int64_t blocks = f->rows * f->groups;
    const bool has_zero = dt__scheme_of(f->quant->scheme)->has_zero;
    *out = (dt_code_rows){ .op_groups = f->op_groups };
    DT__TRY(dt__rows_find(file, name, f));
    out->codes = dt__alloc_array(ctx, f->rows, (size_t)f->columns);
    out->scale = dt__alloc_array(ctx, blocks, sizeof(float));
    if (has_zero) out->zero_point = dt__alloc_array(ctx, blocks, 1);
    if (f->ordered) out->group_of = dt__alloc_array(ctx, f->op_groups, (size_t)f->columns * 4);
    if (out->codes == NULL || out->scale == NULL || (has_zero && out->zero_point == NULL) ||
        (f->ordered && out->group_of == NULL)) {
        return DT_ERR_NOMEM;
    }
    DT__TRY(read_codes(&r));
    DT__TRY(read_zero(&r));
    DT__TRY(read_scales(&r));
    DT__TRY(read_order(&r));
    return check_zeros(&r);
}

void dt__rows_free(dt_ctx *ctx, dt_code_rows *rows)
{
    DT__RELEASE(ctx, rows->codes, rows->scale, rows->zero_point, rows->group_of);
    *rows = (dt_code_rows){ .codes = NULL };
}
