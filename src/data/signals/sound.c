/* Samples in files and as arrays:
 *     8 bits, unsigned        256 (u - 128)        i16
 *     16 bits                 as they are          i16, mapped
 *     24 bits                 v / 2^8              f32, exact
 *     32 bits                 v / 2^16             f32, rounded
 *     floats of 32, 64 bits   2^15 v               f32 */
#include "data/signals/sound.h"

#include <string.h>

static void from_u8(const uint8_t *from, int64_t n, void *to)
{
    int16_t *y = to;
    for (int64_t i = 0; i < n; i++) y[i] = (int16_t)(256 * (from[i] - 128));
}

/* Copies 24-bit numbers to the upper bytes of 32-bit numbers. */
static void from_s24(const uint8_t *from, int64_t n, void *to)
{
    float *y = to;
    for (int64_t i = 0; i < n; i++, from += 3) {
        const uint32_t bits = dt__u16_at(from) << 8 | (uint32_t)from[2] << 24;
        y[i] = (float)(int32_t)bits / 65536;
    }
}

static void from_s32(const uint8_t *from, int64_t n, void *to)
{
    float *y = to;
    for (int64_t i = 0; i < n; i++) y[i] = (float)(int32_t)dt__u32_at(from + 4 * i) / 65536;
}

static void from_f32(const uint8_t *from, int64_t n, void *to)
{
    float *y = to;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = dt__u32_at(from + 4 * i);
        memcpy(&y[i], &bits, sizeof bits);
        y[i] *= 32768;
    }
}

static void from_f64(const uint8_t *from, int64_t n, void *to)
{
    float *y = to;
    double value;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = dt__u64_at(from + 8 * i);
        memcpy(&value, &bits, sizeof bits);
        y[i] = (float)value * 32768;
    }
}

static const dt__sound_form forms[] = {
    { false, 1, DT_ARRAY_I16, from_u8 },  { false, 2, DT_ARRAY_I16, NULL },
    { false, 3, DT_ARRAY_F32, from_s24 }, { false, 4, DT_ARRAY_F32, from_s32 },
    { true, 4, DT_ARRAY_F32, from_f32 },  { true, 8, DT_ARRAY_F32, from_f64 },
};

const dt__sound_form *dt__sound_form_of(bool real, int bytes)
{
    for (int i = 0; i < DT__COUNT_OF(forms); i++) {
        if (forms[i].real == real && forms[i].bytes == bytes) return &forms[i];
    }
    return NULL;
}

dt_status dt__sound_take(dt__array_file *a, const dt__sound_form *form, const uint8_t *from)
{
    size_t bytes;
    a->dtype = form->dtype;
    a->data = from;
    if (form->convert == NULL) return DT_OK;
    if (!dt__array_bytes(a, &bytes)) {
        return dt__array_fail(a, DT_ERR_NOMEM, "out of memory: more samples than memory can hold");
    }
    a->source.storage = dt__storage_create(a->ctx, (uint64_t)bytes);
    if (a->source.storage == NULL) return DT_ERR_NOMEM;
    form->convert(from, a->dims[0] * a->dims[1], a->source.storage->data);
    a->data = a->source.storage->data;
    a->native = true;
    return DT_OK;
}
