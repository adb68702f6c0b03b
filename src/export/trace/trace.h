/* A trace in memory. trace.c records runs of a module, trace_join.c finds which extents are
 * symbolic. */
#ifndef DT__EXPORT_TRACE_H
#define DT__EXPORT_TRACE_H

#include "core/core.h"

#include <detent/experimental/export.h>

/* The name of an input or output in exported files: letters, digits and _ - . / */
typedef struct dt__end_name {
    char text[224];
} dt__end_name;

struct dt_trace {
    dt_ctx *ctx;
    dt_module *m; /* lent */
    dt_trace_value *value;
    int64_t n_values, room_values;
    dt_trace_call *call;
    int64_t n_calls, room_calls;
    int64_t in[DT_MAX_IN], out[DT_MAX_OUT]; /* indices of values */
    int n_in, n_out;
    bool tokens;
    int64_t context;
    const char *out_name[DT_MAX_OUT];
    dt__end_name *names; /* of inputs, then of outputs; owned */
};

/* The size of a recorded pass: number of examples, and of tokens. */
typedef struct dt__trace_size {
    int64_t batch, length;
} dt__trace_size;

/* dt_trace_model for an exporter: calls that it does not support are traced as the calls of
 * `lower`. */
dt_status dt__trace_for(dt_module *m, const dt_model_info *info, const dt_exporter *e,
                        bool shapes_only, dt_trace **out);
/* Records one forward pass; extents are numbers. */
dt_status dt__trace_record(dt_module *m, const dt_trace_options *o, const dt__trace_size *size,
                           dt_trace **out);
/* Makes the extents of `t`, recorded with one example, symbolic, by comparison with `other`, a pass
 * of another size. `which` is 0 for another batch, 1 for another length. Errors: UNSUPPORTED,
 * NOMEM. */
dt_status dt__trace_join(dt_trace *t, dt_trace *other, const dt__trace_size *size,
                         const dt__trace_size *other_size, int which);
/* Removes values and calls on which no output depends, and sets lifetimes. */
dt_status dt__trace_prune(dt_trace *t);

/* Names inputs and outputs: if a network has several, as in its recipe; else input, input1, ...,
 * output, output1, ...; of language models logits. Names are unique. out[DT_MAX_IN + DT_MAX_OUT]:
 * first those of the inputs. */
void dt__trace_names(const dt_module *m, const dt_trace_options *o, dt__end_name *out);

/* Describes the inputs of a model in `in`, of DT_MAX_IN elements, by its graph or its family.
 * Errors: ARG, those of the family. */
dt_status dt__trace_inputs_of(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n);

/* ---- repetitions (trace_repeats.c) ----------------------------------------------------------- */

/* `n` calls from `from` on that are repeated `times` times. */
typedef struct dt__repeat {
    int64_t from, n, times;
} dt__repeat;

/* The repetition beginning at a call that saves the most calls. False: there is none. */
bool dt__trace_repeat(const dt_trace *t, int64_t from, dt__repeat *out);

/* Where operand i of a call in repetition k comes from: INNER (CARRIED): result `result` of call
 * `at` of the same (the previous) repetition; OUTER: value `at` of the trace, computed before all
 * repetitions (-1: absent). */
enum { DT__REPEAT_OUTER, DT__REPEAT_INNER, DT__REPEAT_CARRIED };
typedef struct dt__repeat_operand {
    int kind;
    int64_t at;
    int result;
} dt__repeat_operand;

dt__repeat_operand dt__repeat_operand_of(const dt_trace *t, const dt__repeat *r, int64_t k,
                                         const dt_trace_call *c, int i);

/* A slice of an outer value that is divided into `all` equal parts along dimension 0: repetition k
 * reads part first + k * step, with step 1 or -1. */
typedef struct dt__repeat_slice {
    int64_t first, step, all;
} dt__repeat_slice;

/* Whether call j of a repetition is such a slice. */
bool dt__repeat_rows(const dt_trace *t, const dt__repeat *r, int64_t j, dt__repeat_slice *out);

/* Frees what a call owns. */
void dt__trace_call_free(dt_ctx *ctx, const dt_trace_call *c);

/* A call's option by name, which the op must have: an integer, choice or bool; a number;
 * integers. */
int64_t dt__trace_integer(const dt_trace_call *c, const char *name);
double dt__trace_number(const dt_trace_call *c, const char *name);
const dt_ints *dt__trace_list(const dt_trace_call *c, const char *name);

/* The row of an op in n lists of a format. A row has `size` bytes and begins with the op's name;
 * each list ends with an empty row. NULL: none. And the i-th row; NULL: after the last. */
const void *dt__row_of_op(const void *const *lists, int n, size_t size, const char *op);
const void *dt__row_at(const void *const *lists, int n, size_t size, int i);
/* Whether operand i is present. */
static inline bool dt__trace_has(const dt_trace_call *c, int i)
{
    return i < c->n_in && c->in[i].value >= 0;
}
/* A dimension, which may count from the end, as counted from the front. */
static inline int dt__trace_axis(int64_t dim, int rank)
{
    return (int)(dim < 0 ? dim + rank : dim);
}
/* Element i of an operand's floats; `absent` if the operand is. */
static inline double dt__float_or(const float *x, int64_t i, double absent)
{
    return x != NULL ? (double)x[i] : absent;
}
/* For `takes` of emitters: operand `weight` must be a parameter or a constant. */
bool dt__trace_takes_weight(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                            size_t size);
/* For `takes` of emitters of maxima: nothing may read their positions. */
bool dt__trace_takes_values(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
/* For `takes` of emitters that read all operands as floats. */
bool dt__trace_takes_floats(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);

#endif
