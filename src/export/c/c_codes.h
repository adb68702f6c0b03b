/* Format c: quantized operands of products. */
#ifndef DT__EXPORT_C_CODES_H
#define DT__EXPORT_C_CODES_H

#include "export/c/c_emit.h"

/* How an activation is quantized. */
typedef struct dt__c_coding {
    dt__c_name grid;   /* expression: pointer to the code_grid */
    bool dynamic;      /* dynamic range */
    bool by_row;       /* one range per row of the last dimension */
    bool blocks;       /* one scale per block of a row; no grid */
    dt__c_name scales; /* of a row's blocks: expression */
    dt__c_name format; /* of blocks of small floats: expression, pointer to the small_format */
} dt__c_coding;

dt__c_coding dt__c_coding_of(dt__c_program *p, const dt_trace_call *c, const dt_trace_operand *o);
/* Whether a product with a coded weight reads the operand as floats: it is not quantized, or
 * quantized to small floats. */
bool dt__c_reads_values(const dt_trace_operand *o);
/* Memory for n codes. */
dt__c_name dt__c_codes_room(dt__c_program *p, const dt_trace_call *c, const dt__c_coding *k,
                            int64_t n);
/* Writes the statement that quantizes n values at x to codes u; the grid is known. */
void dt__c_quantize(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                    const char *x, int64_t n, const char *u);
/* Declares the variable for a dynamic grid, in a block of its own. */
void dt__c_declare_grid(dt__c_program *p, const dt__c_coding *k);
/* Writes statements that compute the grid of n values at x. For a static range they only check x;
 * for blocks there are none, as dt__c_quantize computes scales. */
void dt__c_find_grid(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                     const char *x, int64_t n);

/* A weight of a product, as a table of the program. */
typedef struct dt__c_weight {
    dt__c_name name;   /* of the weight_matrix, or of the floats */
    dt__c_name bias;   /* of floats: name of a table, or "0" */
    dt__c_name zeros;  /* zero points: name of a table, or "0" */
    dt__c_name order;  /* column order[j] is at position j of a row; "0": not reordered */
    dt__c_name places; /* the inverse of order */
    bool coded;        /* codes, else floats [rows][columns] */
    bool integer;      /* codes that are multiplied as integers */
    bool blocks;       /* quantized in blocks */
    int bits;          /* bits per stored code: 2, 4 or 8 */
    bool odd;          /* of 2 bits: codes are -3, -1, 1, 3, else -2 ... 1 */
    int64_t rows, columns, group, groups;
} dt__c_weight;

/* Writes operand i of a call as a weight, with the bias in operand `bias`; `groups` of a transposed
 * convolution, else 0. */
typedef struct dt__c_weight_operand {
    int weight, bias;
    int64_t transposed_groups;
} dt__c_weight_operand;
bool dt__c_weight_of(dt__c_program *p, const dt_trace_call *c, const dt__c_weight_operand *of,
                     dt__c_weight *out);
/* Whether the call is a product of integers. */
bool dt__c_is_integer(const dt_trace *t, const dt_trace_call *c);
/* Whether dt__c_weight_of supports the weight; for `takes` of products. */
bool dt__c_takes_weight(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                        size_t size);

/* The product of a row: rows of the weight from `first` on times codes or floats at `x`, into y, y
 * + step, ... The fields are C expressions; `order` is an offset into orders. */
typedef struct dt__c_row {
    const char *x, *first, *y, *order;
    int64_t n, step;
} dt__c_row;

/* Memory that a product needs besides its operands. */
typedef struct dt__c_room {
    /* sums: per group of codes; ordered: codes or floats in the weight's order */
    dt__c_name sums, ordered;
} dt__c_room;
dt__c_room dt__c_product_room(dt__c_program *p, const dt_trace_call *c, const dt__c_weight *w);
/* Writes the statements of a product. Codes that are not multiplied as integers are dequantized
 * first. */
void dt__c_put_product(dt__c_program *p, const dt__c_weight *w, const dt__c_coding *k,
                       const dt__c_room *room, const dt__c_row *r);

/* Writes statements after a product or norm: adds a residual, applies an activation
 * (dt_activation). */
void dt__c_put_after(dt__c_program *p, const dt_trace_call *c, int residual, int activation);

#endif
