/* Format c: quantized operands of products. */
#ifndef DT__EXPORT_C_CODES_H
#define DT__EXPORT_C_CODES_H

#include "export/c/c_emit.h"

/* How an activation is quantized. */
typedef struct dt__c_coding {
    dt__c_name grid;   /* expression: pointer to the code_grid */
    bool dynamic;      /* its range is that of the values */
    bool by_row;       /* and each row of the last dimension has its own */
    bool blocks;       /* and blocks of a row: there is no grid */
    dt__c_name scales; /* of a row's blocks */
    dt__c_name format; /* of blocks of small floats: expression, pointer to the small_format */
} dt__c_coding;

dt__c_coding dt__c_coding_of(dt__c_program *p, const dt_trace_call *c, const dt_trace_operand *o);
/* Whether a product with a coded weight reads the operand as floats: it is not quantized, or its
 * codes are floats. */
bool dt__c_reads_values(const dt_trace_operand *o);
/* Room for n codes. */
dt__c_name dt__c_codes_room(dt__c_program *p, const dt_trace_call *c, const dt__c_coding *k,
                            int64_t n);
/* The statement that makes codes u of n values at x, whose grid is known. */
void dt__c_quantize(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                    const char *x, int64_t n, const char *u);
/* Declares the grid of a dynamic range, in a block of its own. */
void dt__c_declare_grid(dt__c_program *p, const dt__c_coding *k);
/* Statements that find the grid of n values at x. Nothing for a static range but a check of x, and
 * for blocks, whose scales dt__c_quantize finds. */
void dt__c_find_grid(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                     const char *x, int64_t n);

/* A weight of a product, as a table of the program. */
typedef struct dt__c_weight {
    dt__c_name name;   /* of the weight_matrix, or of the floats */
    dt__c_name bias;   /* of floats: a table, or "0" */
    dt__c_name zeros;  /* zero points: a table, or "0" */
    dt__c_name order;  /* place j of a row holds column order[j]; "0": column j */
    dt__c_name places; /* the inverse */
    bool coded;        /* codes, else floats [rows][columns] */
    bool integer;      /* codes that are multiplied as integers */
    bool blocks;       /* by codes in blocks */
    int bits;          /* as kept: 2, 4 or 8 */
    bool odd;          /* of 2 bits: codes are odd, -3 ... 3, else -2 ... 1 */
    int64_t rows, columns, group, groups;
} dt__c_weight;

/* Operand i of a call as a weight with the bias of operand `bias`; `groups` of a transposed
 * convolution, else 0. */
typedef struct dt__c_weight_operand {
    int weight, bias;
    int64_t transposed_groups;
} dt__c_weight_operand;
bool dt__c_weight_of(dt__c_program *p, const dt_trace_call *c, const dt__c_weight_operand *of,
                     dt__c_weight *out);
/* Whether the call is a product of integers. */
bool dt__c_is_integer(const dt_trace *t, const dt_trace_call *c);
/* Whether dt__c_weight_of can: for the `takes` of products. */
bool dt__c_takes_weight(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                        size_t size);

/* A product of a row: rows `first` ... of the weight times what is at `x` (codes or floats, by the
 * weight), into y, y + step, ... Texts of C; `order` is an offset into orders. */
typedef struct dt__c_row {
    const char *x, *first, *y, *order;
    int64_t n, step;
} dt__c_row;

/* What a product needs besides its operands. */
typedef struct dt__c_room {
    dt__c_name sums, ordered; /* sums of codes by group; codes or floats in the weight's order */
} dt__c_room;
dt__c_room dt__c_product_room(dt__c_program *p, const dt_trace_call *c, const dt__c_weight *w);
/* The statements. Codes that are not multiplied as integers are multiplied by what they stand
 * for. */
void dt__c_put_product(dt__c_program *p, const dt__c_weight *w, const dt__c_coding *k,
                       const dt__c_room *room, const dt__c_row *r);

/* Statements for what follows a product or norm: a residual, and an activation by its number. */
void dt__c_put_after(dt__c_program *p, const dt_trace_call *c, int residual, int activation);

#endif
