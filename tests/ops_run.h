/* Running a case of an op: operands in any layout, forward, backward, and what came out. */
#ifndef OPS_RUN_H
#define OPS_RUN_H

#include "testing.h"

#include "ops/ops_list.h"

/* How an operand lies in memory. Between its elements stand others that nobody may touch. */
typedef enum ops_layout {
    OPS_PLAIN,
    OPS_TRANSPOSED, /* the last two dimensions lie the other way round */
    OPS_SPREAD,     /* every second element of the last dimension of a larger tensor */
    OPS_INSIDE,     /* contiguous, in the middle of a larger storage */
    OPS_LAYOUTS
} ops_layout;

/* What one operand is in place of a plain tensor. The scheme: symmetric int8 of the whole. */
typedef enum ops_wrap {
    OPS_BARE,
    OPS_PARAMETER, /* a FakeQuantTensor on the operand's own handle, as prepare makes it */
    OPS_DISABLED,  /* the same, switched off */
    OPS_ON_TAPE,   /* dt_fake_quant of the operand: gradients go on to it */
    OPS_IMAGE      /* a plain tensor with the dequantized values */
} ops_wrap;

typedef struct ops_setup {
    const dt_op *op;
    const dt__case *k;
    dt_dtype real;
    int threads; /* 0: 2 */
    bool plain;  /* the kernels of plain C alone */
    int laid;    /* operand that lies as `layout` says; the others are plain */
    ops_layout layout;
    int wrapped; /* operand that is what `wrap` says */
    ops_wrap wrap;
    int passes; /* forward and backward so often, gradients adding up; 0: 1 */
} ops_setup;

/* Values as doubles, row-major; NULL where there are none. */
typedef struct ops_values {
    int64_t n;
    double *v;
} ops_values;

typedef struct ops_outcome {
    dt_status status;
    char message[1024];
    ops_values y, written[DT__CASE_IN], grad[DT__CASE_IN];
    ops_values image; /* of a wrapped operand, afterwards */
    bool stray;       /* something between the elements of an operand was written */
} ops_outcome;

int ops_count(const dt__case *k);                                   /* operands of a case */
bool ops_differentiable(const dt_op *op, const dt__case *k, int i); /* gets a gradient */
bool ops_is_empty(const dt__case *k); /* some operand has no elements */

/* Operand i of a case, plain; the caller's to free. NULL after an error on the context. */
dt_tensor *ops_operand(dt_ctx *ctx, const dt__case *k, int i, dt_dtype real);
/* The same values in another layout. */
dt_tensor *ops_lay_out(const dt_tensor *x, ops_layout layout);
/* The upstream gradient that every check uses for a result like y. */
dt_tensor *ops_upstream(const dt_tensor *y);

double ops_at(const dt_tensor *x, int64_t k); /* element k in row-major order */
ops_values ops_read(const dt_tensor *x);

void ops_run(const ops_setup *s, ops_outcome *out);
void ops_free(ops_outcome *o);

/* Every value equal, NaN to NaN; the same status. */
bool ops_same(const ops_outcome *a, const ops_outcome *b);
/* max |a - b| <= relative * max |b| + absolute; infinities and NaN stand in the same places. */
bool ops_near(ops_values a, ops_values b, double relative, double absolute);

/* Reference values of golden/ops: every case of the op's file, in f64 and in f32. Prints a
 * row for each; returns the number of failures, and counts cases and values. */
int ops_golden(const dt_op *op, int *cases, int *compared);

/* docs/ops.md as it should be, to be freed. */
char *ops_markdown(const dt_op *const *ops, int n);

#endif
