/* Integer matrices in files: rows of codes in up to four tensors of one name. */
#ifndef DT__IO_CODE_ROWS_H
#define DT__IO_CODE_ROWS_H

#include "io/model/grouped_files.h"
#include "io/safetensors/safetensors.h"
#include "qat/quantized.h"

/* Form of a matrix, from its scheme and the metadata. */
typedef struct dt__rows_form {
    const dt_quant_spec *quant;
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group (the last of a row may be shorter); groups of a
                            * row */
    int64_t op_groups;     /* the rows are divided into this many parts, each with a row of g_idx */
    int64_t experts; /* of a grouped weight: granularity tensor is per expert; 0: not grouped */
    bool ordered;    /* has a g_idx: groups are not consecutive columns */
    bool bytes;      /* one code per byte, instead of bit-packed */
} dt__rows_form;

/* Bits per code when bit-packed: 1, 2, 4 or 8. */
int dt__storage_bits(int64_t bits);
/* Adds `offset` to n codes and packs them with this many bits each (1, 2, 4 or 8), the first code
 * of a byte in its lowest bits. `bytes` may be `codes`. */
void dt__pack_codes(int bits, int64_t n, const int8_t *codes, int offset, uint8_t *bytes);
/* Bytes of a row of codes. */
int64_t dt__row_bytes(const dt__rows_form *f);

/* ---- writing ------------------------------------------------------------------------------ */

#define DT__ROW_PARTS 4
extern const char *const dt__row_suffix[DT__ROW_PARTS]; /* ".codes", ".scale", ... */

/* The tensors of a matrix; must not be moved in memory. `data` NULL: the matrix lacks this part. */
typedef struct dt__row_parts {
    dt_file_entry part[DT__ROW_PARTS];
    int64_t dims[DT__ROW_PARTS][2];
} dt__row_parts;

/* Makes the parts from rows of codes. Codes are bit-packed into `packed`, which has rows *
 * dt__row_bytes bytes. packed NULL: one byte per code; indices of levels overwrite the codes.
 * Scales are rounded to their dtype in place. Everything else is borrowed. */
void dt__row_parts_of(const dt__rows_form *f, const dt_code_rows *rows, uint8_t *packed,
                      dt__row_parts *out);
/* Adds the parts to a writer as NAME.codes and so on; split into experts if NAME is one of `groups`
 * (NULL: none). */
dt_status dt__row_parts_add(dt_ctx *ctx, dt_writer *w, const dt__groups *groups, const char *name,
                            const dt__row_parts *p);

/* ---- reading ------------------------------------------------------------------------------ */

/* FORMAT unless NAME.codes has the size of this form. Called before memory for that shape is
 * allocated. */
dt_status dt__rows_find(const dt_file *file, const char *name, const dt__rows_form *f);
/* Reads and checks NAME.codes and the other parts into new memory, which the caller frees also
 * after an error. FORMAT, saying what is wrong. */
dt_status dt__rows_read(const dt_file *file, const char *name, const dt__rows_form *f,
                        dt_code_rows *out);
void dt__rows_free(dt_ctx *ctx, dt_code_rows *rows);
/* FORMAT: "FILE: weight 'NAME': REASON". */
dt_status dt__rows_refuse(const dt_file *file, const char *name, const char *format, ...)
    DT_PRINTF(3, 4);

#endif
