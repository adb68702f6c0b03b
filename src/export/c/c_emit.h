/* Format c: how calls of a trace become statements of the function NAME_run.
 *
 * An emitter writes one op: tables of constants, and statements that call functions of the list of
 * texts (c_texts.inc). Names of values are pointers of the right type: v12 is value 12 of the
 * trace, in the arena, x0 an input, y0 an output, c12 the table of a parameter or constant. Memory
 * is planned after all statements are written, so an emitter only requests the bytes that a call
 * needs besides its values (dt__c_scratch). Where dt_trace_is_in_place says so, a result may lie
 * over its operand. Extents are those of one example and, of a language model, of one token.
 *
 * Functions of dt__c_program do nothing after an error, which p->status keeps. */
#ifndef DT__EXPORT_C_EMIT_H
#define DT__EXPORT_C_EMIT_H

#include "core/text/json.h"
#include "export/c/c_texts.h"

#include <detent/experimental/export.h>

/* A name, number or C expression that is short enough to be passed by value. */
typedef struct dt__c_name {
    char text[48];
} dt__c_name;

typedef struct dt__c_program dt__c_program;

/* How an op is written as C. */
typedef struct dt__c_emitter {
    const char *op; /* name of the op */
    /* function text(x, n, y), for ops that are elementwise functions; else NULL */
    const char *text;
    /* Whether the emitter supports a call; if not, `why` receives the reason. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__c_program *p, const dt_trace_call *c); /* NULL: calls the function `text` */
} dt__c_emitter;

/* The emitter of an op; NULL: none. And the i-th emitter; NULL: after the last. The lists
 * dt__c_emit_<topic> are in c_emit_<topic>.c and end with an empty row. */
const dt__c_emitter *dt__c_emitter_of(const char *op);
extern const dt__c_emitter dt__c_emit_products[], dt__c_emit_convs[], dt__c_emit_maps[],
    dt__c_emit_shapes[], dt__c_emit_pools[], dt__c_emit_norms[], dt__c_emit_cells[],
    dt__c_emit_language[], dt__c_emit_device[];

/* ---- operands -------------------------------------------------------------------------------- */

/* Operand i and result i of a call, as pointers; "0" for an absent operand. If the op reads
 * dequantized values of a quantized operand, those are returned. */
dt__c_name dt__c_in(dt__c_program *p, const dt_trace_call *c, int i);
/* A value without its quantization. */
dt__c_name dt__c_value(dt__c_program *p, int64_t value);
dt__c_name dt__c_out(dt__c_program *p, const dt_trace_call *c, int i);
/* Rank, extents and count of a value. */
int dt__c_rank(const dt__c_program *p, int64_t value);
int64_t dt__c_dim(const dt__c_program *p, int64_t value, int d);
const dt_trace_value *dt__c_value_at(const dt__c_program *p, int64_t v);
int64_t dt__c_count(const dt__c_program *p, int64_t value);
/* Scratch memory of a call, as a pointer to `type` ("float"): n elements of `size` bytes. */
dt__c_name dt__c_scratch(dt__c_program *p, const dt_trace_call *c, const char *type, int64_t n,
                         size_t size);

/* ---- text ------------------------------------------------------------------------------------ */

/* Includes a text, and the texts it needs, in the export. */
void dt__c_want(dt__c_program *p, const char *text);
/* Adds a statement as an indented line; or several lines of a longer one. */
void dt__c_line(dt__c_program *p, const char *format, ...) DT_PRINTF(2, 3);
/* Adds the statement function(x, channels, rows, columns, rows of y, columns of y, y) for a call
 * that resizes images or signals. */
void dt__c_resize(dt__c_program *p, const dt_trace_call *c, const char *function);
/* The shortest literal that has exactly the bits of v. */
dt__c_name dt__c_float(float v);

/* Adds tables of constants under a unique name such as `w5_codes`. `what` becomes a comment; names
 * from models must pass dt__c_comment (c_program.h). The self-test's checksum covers them. */
void dt__c_floats(dt__c_program *p, const char *name, const char *what, const float *v, int64_t n);
void dt__c_bytes(dt__c_program *p, const char *name, const char *what, const uint8_t *v, int64_t n);
void dt__c_signed_bytes(dt__c_program *p, const char *name, const char *what, const int8_t *v,
                        int64_t n);
void dt__c_shorts(dt__c_program *p, const char *name, const char *what, const uint16_t *v,
                  int64_t n);
void dt__c_words(dt__c_program *p, const char *name, const char *what, const int32_t *v, int64_t n);
/* Adds any other constant, as lines of C. */
void dt__c_constant(dt__c_program *p, const char *format, ...) DT_PRINTF(2, 3);

#endif
