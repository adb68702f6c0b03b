/* Loads tensors with conversion, by a table of pairs (dtype in the file, dtype wanted). Conversions
 * keep every value, except f64 to f32, which rounds to nearest and refuses values that would become
 * infinite. The file's bytes are not aligned, hence memcpy. */
#include "core/system/pages.h"
#include "core/text/half.h"
#include "core/tensor.h"
#include "io/gguf/gguf.h"
#include "io/safetensors/safetensors.h"

#include <math.h>
#include <string.h>

/* Converts n elements; returns the index of the first that cannot be converted, or n. */
typedef int64_t convert(int64_t n, const unsigned char *from, void *to);

#define CONVERT(name, from_type, to_type, valid, value)                                            \
    static int64_t name(int64_t n, const unsigned char *from, void *to)                            \
    {                                                                                              \
        to_type *out = to;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            from_type x;                                                                           \
            memcpy(&x, from + (size_t)i * sizeof x, sizeof x);                                     \
            if (!(valid)) return i;                                                                \
            out[i] = value;                                                                        \
        }                                                                                          \
        return n;                                                                                  \
    }

CONVERT(f16_f32, uint16_t, float, true, dt__f16_to_f32(x))
CONVERT(f16_f64, uint16_t, double, true, (double)dt__f16_to_f32(x))
CONVERT(bf16_f32, uint16_t, float, true, dt__bf16_to_f32(x))
CONVERT(bf16_f64, uint16_t, double, true, (double)dt__bf16_to_f32(x))
CONVERT(f32_f64, float, double, true, (double)x)
CONVERT(f64_f32, double, float, !isinf((float)x) || isinf(x), (float)x)
CONVERT(bool_bool, uint8_t, uint8_t, x <= 1, x)
CONVERT(u8_i32, uint8_t, int32_t, true, x)
CONVERT(u8_i64, uint8_t, int64_t, true, x)
CONVERT(i8_i32, int8_t, int32_t, true, x)
CONVERT(i8_i64, int8_t, int64_t, true, x)
CONVERT(u16_i32, uint16_t, int32_t, true, x)
CONVERT(u16_i64, uint16_t, int64_t, true, x)
CONVERT(i16_i32, int16_t, int32_t, true, x)
CONVERT(i16_i64, int16_t, int64_t, true, x)
CONVERT(i32_i64, int32_t, int64_t, true, x)
CONVERT(u32_i64, uint32_t, int64_t, true, x)

/* Blocks of GGUF files (gguf_values.c). */
#define BLOCKS(name, block, size)                                                                  \
    static int64_t name##_f32(int64_t n, const unsigned char *from, void *to)                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += block, from += size) {                                     \
            dt__gguf_##name(from, (float *)to + i);                                                \
        }                                                                                          \
        return n;                                                                                  \
    }

BLOCKS(q8_0, DT__GGUF_BLOCK, 34)
BLOCKS(q4_0, DT__GGUF_BLOCK, 18)
BLOCKS(q2_k, DT__GGUF_LONG_BLOCK, 84)
BLOCKS(q3_k, DT__GGUF_LONG_BLOCK, 110)
BLOCKS(tq1_0, DT__GGUF_LONG_BLOCK, 54)
BLOCKS(tq2_0, DT__GGUF_LONG_BLOCK, 66)
BLOCKS(mxfp4, DT__GGUF_BLOCK, 17)
BLOCKS(q1_0, DT__GGUF_Q1_BLOCK, 18)
BLOCKS(q2_0, DT__GGUF_Q2_BLOCK, 18)

typedef struct pair {
    const char *from;
    dt_dtype to;
    convert *convert; /* NULL: copies the bytes */
    dt_status refused;
    const char *why;
} pair;

static const pair pairs[] = {
    { "F32", DT_F32, .convert = NULL },
    { "F16", DT_F32, .convert = f16_f32 },
    { "BF16", DT_F32, .convert = bf16_f32 },
    { "Q8_0", DT_F32, .convert = q8_0_f32 },
    { "Q4_0", DT_F32, .convert = q4_0_f32 },
    { "Q2_K", DT_F32, .convert = q2_k_f32 },
    { "Q3_K", DT_F32, .convert = q3_k_f32 },
    { "TQ1_0", DT_F32, .convert = tq1_0_f32 },
    { "TQ2_0", DT_F32, .convert = tq2_0_f32 },
    { "MXFP4", DT_F32, .convert = mxfp4_f32 },
    { "Q1_0", DT_F32, .convert = q1_0_f32 },
    { "Q2_0", DT_F32, .convert = q2_0_f32 },
    { "F64", DT_F32, .convert = f64_f32, .refused = DT_ERR_NUMERIC,
      .why = "is beyond the range of f32" },
    { "F64", DT_F64, .convert = NULL },
    { "F32", DT_F64, .convert = f32_f64 },
    { "F16", DT_F64, .convert = f16_f64 },
    { "BF16", DT_F64, .convert = bf16_f64 },
    { "BOOL", DT_BOOL, .convert = bool_bool, .refused = DT_ERR_FORMAT,
      .why = "is a BOOL that is neither 0 nor 1" },
    { "U8", DT_U8, .convert = NULL },
    { "I8", DT_I8, .convert = NULL },
    { "U8", DT_I32, .convert = u8_i32 },
    { "I8", DT_I32, .convert = i8_i32 },
    { "U16", DT_I32, .convert = u16_i32 },
    { "I16", DT_I32, .convert = i16_i32 },
    { "I32", DT_I32, .convert = NULL },
    { "U8", DT_I64, .convert = u8_i64 },
    { "I8", DT_I64, .convert = i8_i64 },
    { "U16", DT_I64, .convert = u16_i64 },
    { "I16", DT_I64, .convert = i16_i64 },
    { "U32", DT_I64, .convert = u32_i64 },
    { "I32", DT_I64, .convert = i32_i64 },
    { "I64", DT_I64, .convert = NULL },
};

static const pair *pair_of(const char *from, dt_dtype to)
{
    for (int i = 0; i < DT__COUNT_OF(pairs); i++) {
        if (pairs[i].to == to && strcmp(pairs[i].from, from) == 0) return &pairs[i];
    }
    return NULL;
}

static dt_status fill(const dt_file *file, const dt_file_entry *e, const pair *p, dt_tensor *x)
{
    if (p->convert == NULL) {
        if (e->bytes > 0) memcpy(dt__values_mut(x), e->data, e->bytes);
        return DT_OK;
    }
    const int64_t good = p->convert(e->count, e->data, dt__values_mut(x));
    if (good == e->count) return DT_OK;
    char text[DT__SHOWN];
    return dt_fail(file->ctx, p->refused, "%s: tensor '%s': element %lld %s", file->path,
                   dt__shown(e->name, text), (long long)good, p->why);
}

static bool lies_within(const unsigned char *at, size_t n, const unsigned char *begin, size_t bytes)
{
    return begin != NULL && at >= begin && at + n <= begin + bytes;
}

/* The copy (dt__turned) that contains these bytes; NULL: none. */
static dt__turned *copy_of(const dt_file *file, const unsigned char *at, size_t n)
{
    dt__turned *c = file->copies;
    while (c != NULL && !lies_within(at, n, c->begin, c->bytes)) c = c->next;
    return c;
}

/* Releases the pages in these bytes of a file, or of one of its parts, which a later access reads
 * again; or of a copy, which cannot be read again. */
static void forget(const dt_file *file, const unsigned char *at, size_t n)
{
    dt__turned *copy = copy_of(file, at, n);
    for (int64_t i = 0; i < file->n_parts; i++) forget(file->part[i], at, n);
    if (copy != NULL) copy->spent = true;
    if (copy != NULL || lies_within(at, n, file->bytes, file->size)) dt__pages_give_back(at, n);
}

dt_status dt__file_check_unread(const dt_file *file)
{
    const dt__turned *c = file->copies;
    while (c != NULL && !c->spent) c = c->next;
    return c == NULL ? DT_OK
                     : dt_fail(file->ctx, DT_ERR_STATE,
                               "%s: a model was read from it, and copies of turned matrices were "
                               "given back; open it again",
                               file->path);
}

dt_status dt__entry_load(const dt_file *file, const dt_file_entry *e, dt_dtype dtype,
                         dt_tensor **out)
{
    *out = NULL;
    char text[DT__SHOWN];
    const pair *p = pair_of(e->dtype, dtype);
    if (p == NULL) {
        return dt_fail(file->ctx, DT_ERR_DTYPE, "%s: tensor '%s' is %s, which %s cannot hold",
                       file->path, dt__shown(e->name, text), e->dtype, dt_dtype_name(dtype));
    }
    if (e->rank > DT_MAX_RANK) {
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor '%s' has %d dimensions; at most %d are supported", file->path,
                       dt__shown(e->name, text), e->rank, DT_MAX_RANK);
    }
    dt_tensor *x;
    if (copy_of(file, e->data, e->bytes) != NULL) DT__TRY(dt__file_check_unread(file));
    dt_status status = dt__tensor_create_raw(file->ctx, dtype, e->rank, e->dims, &x);
    if (status == DT_ERR_ARG) {
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                       "%s: tensor '%s' is empty, but its other dimensions are too large",
                       file->path, dt__shown(e->name, text));
    }
    if (status == DT_OK) status = fill(file, e, p, x);
    if (status != DT_OK) {
        dt_tensor_free(x);
        return status;
    }
    *out = x;
    return DT_OK;
}

bool dt__entry_fits(const dt_file_entry *e, const dt_tensor *x)
{
    const pair *p = pair_of(e->dtype, x->dtype);
    return p != NULL && p->refused == DT_OK && x->kind == NULL && dt_is_contiguous(x) &&
           e->count == x->count;
}

#define AT_ONCE ((int64_t)1 << 20) /* elements; a multiple of every block size */

void dt__entry_forget(const dt_file *file, const dt_file_entry *e)
{
    forget(file, e->data, e->bytes);
}

void dt__entry_copy(const dt_file *file, const dt_file_entry *e, dt_tensor *x)
{
    const pair *p = pair_of(e->dtype, x->dtype);
    const size_t each = dt_dtype_size(x->dtype);
    const int64_t unit = e->count % DT__GGUF_BLOCK == 0 ? DT__GGUF_BLOCK : 1;
    const unsigned char *from = e->data;
    char *to = dt__values_mut(x);
    for (int64_t done = 0; done < e->count; done += AT_ONCE) {
        const int64_t n = dt__min_i64(AT_ONCE, e->count - done);
        const size_t bytes = e->bytes / (size_t)(e->count / unit) * (size_t)(n / unit);
        if (p->convert == NULL) memcpy(to, from, bytes);
        else p->convert(n, from, to);
        forget(file, from, bytes);
        from += bytes;
        to += (size_t)n * each;
    }
}

dt_status dt_file_load(const dt_file *file, const char *name, dt_dtype dtype, dt_tensor **out)
{
    DT__NEED3(NULL, file, name, out);
    const dt_file_entry *e = dt_file_find(file, name);
    if (e != NULL) return dt__entry_load(file, e, dtype, out);
    *out = NULL;
    char text[DT__SHOWN];
    return dt_fail(file->ctx, DT_ERR_ARG, "%s: there is no tensor '%s'", file->path,
                   dt__shown(name, text));
}
