/* Samples of sound files. Every format is converted to the scale of 16 bits, -32768 to 32767, with
 * fractions if samples have more bits, so that a model can read all formats. */
#ifndef DT__DATA_SOUND_H
#define DT__DATA_SOUND_H

#include "data/files/array_file.h"

#if defined DETENT_SNDFILE
#define DT__HAS_SNDFILE true
#else
#define DT__HAS_SNDFILE false
#endif

/* How samples are stored, little-endian, and converted. */
typedef struct dt__sound_form {
    bool real; /* floating point, full scale 1 */
    int bytes;
    dt_array_dtype dtype;
    void (*convert)(const uint8_t *from, int64_t n, void *to); /* NULL: not converted */
} dt__sound_form;

/* NULL: unsupported. */
const dt__sound_form *dt__sound_form_of(bool real, int bytes);

/* Sets dtype and data of an array whose shape is known: mapped, or converted into memory. NOMEM. */
dt_status dt__sound_take(dt__array_file *a, const dt__sound_form *form, const uint8_t *from);

#endif
