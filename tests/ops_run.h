/* Running a case of an op: operands in any memory layout, forward, backward, and the results. */
#ifndef OPS_RUN_H
#define OPS_RUN_H

#include "testing.h"

#include "ops/ops_list.h"

/* The memory layout of an operand. Elements between those of the operand must not be touched. */
typedef enum ops_layout {
    OPS_PLAIN,
    OPS_TRANSPOSED, /* the last two dimensions are transposed in memory */
    OPS_SPREAD,     /* every second element of the last dimension of a larger tensor */
    OPS_INSIDE,     /* contiguous, in the middle of a larger storage */
    OPS_LAYOUTS
} ops_layout;

/* What an operand is instead of a plain tensor. The scheme is symmetric int8, per tensor. */
typedef enum ops_wrap {
    OPS_BARE,
    OPS_PARAMETER, /* a FakeQuantTensor on the operand's own handle, as prepare makes it */
    OPS_DISABLED,  /* the same, with fake quantization disabled */
    OPS_ON_TAPE,   /* dt_fake_quant of the operand, which gradients flow on to */
    OPS_IMAGE      /* a plain tensor with the dequantized values */
} ops_wrap;

typedef struct ops_setup {
    const dt_op *op;
    const dt__case *k;
    dt_dtype real;
    int threads;     /* 0: 2 */
    const char *set; /* the kernels' instruction set at most; NULL: the best one */
    int laid;        /* index of the operand that has `layout`; the others are contiguous */
    ops_layout layout;
    int wrapped; /* index of the operand that `wrap` concerns */
    ops_wrap wrap;
    bool lowered; /* replaced by the calls of its `lower`, down to primitives */
    int passes;   /* number of forward and backward passes, whose gradients add up; 0: 1 */
} ops_setup;

/* Values as doubles, row-major; NULL: there are none. */
typedef struct ops_values {
    int64_t n;
    double *v;
} ops_values;

typedef struct ops_outcome {
    dt_status status;
    char message[1024];
    ops_values y, written[DT__CASE_IN], grad[DT__CASE_IN];
    ops_values image; /* dequantized value of the wrapped operand after the run */
    bool stray;       /* memory between the elements of an operand was written */
} ops_outcome;

int ops_count(const dt__case *k);                                   /* operands of a case */
bool ops_differentiable(const dt_op *op, const dt__case *k, int i); /* whether it gets a gradient */
bool ops_is_empty(const dt__case *k); /* whether some operand has no elements */

/* Operand i of a case as a contiguous tensor, which the caller frees. NULL after an error on the
 * context. */
dt_tensor *ops_operand(dt_ctx *ctx, const dt__case *k, int i, dt_dtype real);
/* The same values in another layout. */
dt_tensor *ops_lay_out(const dt_tensor *x, ops_layout layout);
/* The upstream gradient that every check uses for a result like y. */
dt_tensor *ops_upstream(const dt_tensor *y);

double ops_at(const dt_tensor *x, int64_t k); /* element k in row-major order */
ops_values ops_read(const dt_tensor *x);

void ops_run(const ops_setup *s, ops_outcome *out);
void ops_free(ops_outcome *o);

/* How far results and gradients of two instruction sets may differ, in units of the largest value;
 * 0: the same bits. With fast kernels a large convolution of floats is oneDNN's, where gradients
 * are recorded. Codes are of `real` f32. docs/ops.md has the table. */
double ops_set_bound(const dt_op *op, dt_dtype real);

/* Whether all values (NaN equals NaN) and the status are equal. */
bool ops_same(const ops_outcome *a, const ops_outcome *b);
/* max |a - b| <= relative * max |b| + absolute; infinities and NaN have the same indices. */
bool ops_near(ops_values a, ops_values b, double relative, double absolute);

/* Compares with the reference values of golden/ops: every case of the op's file, in f64 and f32.
 * Prints a row for each; returns the number of failures, and counts cases and values. */
int ops_golden(const dt_op *op, int *cases, int *compared);

#endif
