/* Format c: how calls of a trace become statements of the function NAME_run.
 *
 * An emitter writes one op: tables of constants, and statements that call functions of the list of
 * texts (c_texts.inc). Values have names that stand for pointers of the right type: v12 is value 12
 * of the trace, in the arena, x0 an input, y0 an output, c12 the table of a parameter or constant.
 * Memory is planned when all statements are known, so an emitter only says how many bytes a call
 * needs besides its values (dt__c_scratch). Where dt_trace_is_in_place says so, a result may lie
 * over its operand. Extents are those of one example and, of a language model, of one token.
 *
 * Functions of dt__c_program do nothing after an error, which p->status keeps. */
#ifndef DT__EXPORT_C_EMIT_H
#define DT__EXPORT_C_EMIT_H

#include "core/text/json.h"
#include "export/c/c_texts.h"

#include <detent/experimental/export.h>

/* A name, a number or an expression of C, short enough to be passed by value. */
typedef struct dt__c_name {
    char text[48];
} dt__c_name;

typedef struct dt__c_program dt__c_program;

/* How an op is written. */
typedef struct dt__c_emitter {
    const char *op;   /* name of the op */
    const char *text; /* of ops that are one function of elements, text(x, n, y); else NULL */
    /* Whether it can write a call; if not, says why in `why`. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__c_program *p, const dt_trace_call *c); /* NULL: by `text` */
} dt__c_emitter;

/* The emitter of an op; NULL: there is none. And the i-th; NULL past the last. The lists
 * dt__c_emit_<topic> are in c_emit_<topic>.c, ended by an empty row. */
const dt__c_emitter *dt__c_emitter_of(const char *op);
extern const dt__c_emitter dt__c_emit_products[], dt__c_emit_convs[], dt__c_emit_maps[],
    dt__c_emit_shapes[], dt__c_emit_pools[], dt__c_emit_norms[], dt__c_emit_cells[],
    dt__c_emit_language[], dt__c_emit_device[];

/* ---- operands -------------------------------------------------------------------------------- */

/* Operand i and result i of a call, as pointers; "0" of an operand that is not given. A quantized
 * operand of which the op reads dequantized values is those values. */
dt__c_name dt__c_in(dt__c_program *p, const dt_trace_call *c, int i);
/* A value as it is, without quantization. */
dt__c_name dt__c_value(dt__c_program *p, int64_t value);
dt__c_name dt__c_out(dt__c_program *p, const dt_trace_call *c, int i);
/* Their extents. */
int dt__c_rank(const dt__c_program *p, int64_t value);
int64_t dt__c_dim(const dt__c_program *p, int64_t value, int d);
const dt_trace_value *dt__c_value_at(const dt__c_program *p, int64_t v);
int64_t dt__c_count(const dt__c_program *p, int64_t value);
/* Memory of the call alone, as a pointer to `type` ("float"): n elements of `size` bytes. */
dt__c_name dt__c_scratch(dt__c_program *p, const dt_trace_call *c, const char *type, int64_t n,
                         size_t size);

/* ---- text ------------------------------------------------------------------------------------ */

/* The export holds the text of this name, and what it needs. */
void dt__c_want(dt__c_program *p, const char *text);
/* Adds a statement, a line of its own, indented; or lines of a longer one. */
void dt__c_line(dt__c_program *p, const char *format, ...) DT_PRINTF(2, 3);
/* The statement function(x, channels, rows, columns, rows of y, columns of y, y) of a call that
 * gives planes or lines another size. */
void dt__c_resize(dt__c_program *p, const dt_trace_call *c, const char *function);
/* The shortest literal with the bits of v. */
dt__c_name dt__c_float(float v);

/* Tables of constants, of a name that no other has: `w5_codes`. `what` becomes a comment; names of
 * a stranger go through dt__c_comment (c_program.h). The self-test covers them by a checksum. */
void dt__c_floats(dt__c_program *p, const char *name, const char *what, const float *v, int64_t n);
void dt__c_bytes(dt__c_program *p, const char *name, const char *what, const uint8_t *v, int64_t n);
void dt__c_signed_bytes(dt__c_program *p, const char *name, const char *what, const int8_t *v,
                        int64_t n);
void dt__c_shorts(dt__c_program *p, const char *name, const char *what, const uint16_t *v,
                  int64_t n);
void dt__c_words(dt__c_program *p, const char *name, const char *what, const int32_t *v, int64_t n);
/* Any other constant, as lines of C. */
void dt__c_constant(dt__c_program *p, const char *format, ...) DT_PRINTF(2, 3);

#endif
