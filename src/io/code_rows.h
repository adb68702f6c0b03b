/* Rows of codes as files hold them: an integer matrix in up to four tensors of one name. */
#ifndef DT__IO_CODE_ROWS_H
#define DT__IO_CODE_ROWS_H

#include "io/grouped_files.h"
#include "io/safetensors.h"
#include "qat/quantized.h"

/* What the scheme and the metadata say of a matrix. */
typedef struct dt__rows_form {
    const dt_quant_spec *quant;
    int64_t rows, columns;
    int64_t group, groups; /* columns of a group (a row's last may be shorter), groups of a row */
    int64_t op_groups;     /* equal shares of the rows, of which each has a line of g_idx */
    int64_t experts; /* of a grouped weight: granularity tensor is of each; 0: it is not grouped */
    bool ordered;    /* there is a g_idx: groups are not of consecutive columns */
    bool bytes;      /* a code a byte, in place of as many as fit */
} dt__rows_form;

/* Bits that a code takes where as many are packed as fit: 2, 4 or 8. */
int dt__storage_bits(int64_t bits);
/* Bytes of a row of codes. */
int64_t dt__row_bytes(const dt__rows_form *f);

/* ---- writing ------------------------------------------------------------------------------ */

#define DT__ROW_PARTS 4
extern const char *const dt__row_suffix[DT__ROW_PARTS]; /* ".codes", ".scale", ... */

/* The tensors of a matrix; not to be moved. `data` NULL: this matrix has no such part. */
typedef struct dt__row_parts {
    dt_file_entry part[DT__ROW_PARTS];
    int64_t dims[DT__ROW_PARTS][2];
} dt__row_parts;

/* Makes them of rows. Codes go to `packed`, rows * dt__row_bytes, unless they stay bytes (NULL);
 * scales are narrowed to their dtype in place. All else is borrowed. */
void dt__row_parts_of(const dt__rows_form *f, const dt_code_rows *rows, uint8_t *packed,
                      dt__row_parts *out);
/* Adds them to a writer as NAME.codes and the rest, expert by expert where NAME is of `groups`
 * (NULL: none). */
dt_status dt__row_parts_add(dt_ctx *ctx, dt_writer *w, const dt__groups *groups, const char *name,
                            const dt__row_parts *p);

/* ---- reading ------------------------------------------------------------------------------ */

/* FORMAT unless the file holds NAME.codes in this form: before memory is asked for by its shape. */
dt_status dt__rows_find(const dt_file *file, const char *name, const dt__rows_form *f);
/* Reads NAME.codes and the rest, checked, into new memory, to be freed also after an error. FORMAT,
 * saying what is wrong. */
dt_status dt__rows_read(const dt_file *file, const char *name, const dt__rows_form *f,
                        dt_code_rows *out);
void dt__rows_free(dt_ctx *ctx, dt_code_rows *rows);
/* FORMAT: "FILE: weight 'NAME': RULE". */
dt_status dt__rows_refuse(const dt_file *file, const char *name, const char *format, ...)
    DT_PRINTF(3, 4);

#endif
