/* ops.h: the operators, and how to write one of your own.
 *
 * Every operator takes a tape and returns a tensor lent by it, or NULL with the error on the tape.
 * Where a formula says so, operands broadcast from the right as in NumPy. f32 and f64.
 */
#ifndef DETENT_OPS_H
#define DETENT_OPS_H

#include <detent/detent.h>
#include <detent/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what an operator is ------------------------------------------------------------------ */

#define DT_MAX_IN 16
#define DT_MAX_OUT 4

/* What an op wants of an operand. */
typedef enum dt_role {
    DT_READ = 0, /* the value; for a wrapper, its quantized image */
    DT_CODES,    /* integer codes and scales if the operand offers them, else the value */
    DT_WRITE,    /* the tensor that an in-place op writes: for a wrapper, the master inside */
    DT_RAW       /* the same, to read */
} dt_role;

/* What backward needs of an operand or a result; all else is freed after forward. */
typedef enum dt_save {
    DT_NOTHING = 0,
    DT_VALUE,
    DT_SAVE_CODES /* the codes where forward had codes, else the value */
} dt_save;

typedef struct dt_saves {
    dt_save arg[DT_MAX_IN];
    union {
        dt_save y; /* = out[0] */
        dt_save out[DT_MAX_OUT];
    };
} dt_saves;

typedef struct dt_op dt_op;

/* One call of an op, in forward and again in backward. */
typedef struct dt_call {
    dt_ctx *ctx;
    dt_tape *tape;
    const dt_op *op;
    const struct dt__kernels *kernels; /* of the first operand's dtype; internal */
    const void *options;               /* never NULL if op->options_size > 0 */
    int n_in, n_out;
    dt_tensor *in[DT_MAX_IN];  /* the handles as given */
    dt_tensor *arg[DT_MAX_IN]; /* what to read or write: dense; contiguous unless op->strided */
    struct dt__codes *codes[DT_MAX_IN]; /* of CODES operands in forward_codes; internal */
    union {
        dt_tensor *y; /* = out[0] */
        dt_tensor *out[DT_MAX_OUT];
    };
    bool wants[DT_MAX_IN]; /* who wants a gradient; the same in forward and backward */
    bool recording;        /* some operand wants one, and the tape records */
    bool coded;            /* forward_codes was used */
    int64_t state[4];      /* numbers that shape or forward leave for backward */
    size_t scratch_bytes;  /* set by shape: workspace for forward; op->scratch for backward */
    void *scratch;
} dt_call;

struct dt_op {
    const char *name;
    const char *in_name[DT_MAX_IN];
    const char *out_name[DT_MAX_OUT];
    dt_role role[DT_MAX_IN];
    bool strided;               /* forward and backward take operands with any strides */
    bool undifferentiable[DT_MAX_IN]; /* operands that never get a gradient */
    dt_saves saves;             /* after forward */
    dt_saves saves_coded;       /* after forward_codes */
    size_t options_size;
    const void *defaults;       /* options used where the caller gives NULL */
    const dt_key *keys;         /* describes the options */
    /* Checks the operands, says what is wrong with them, and makes the results with dt_result. */
    dt_status (*shape)(dt_call *c);
    void (*forward)(const dt_call *c);
    void (*forward_codes)(const dt_call *c); /* or NULL */
    /* Writes dx[i] for every i that is not NULL. `dy` is the gradient of y. NULL: in-place, or not
     * differentiable. */
    void (*backward)(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);
    size_t (*scratch)(const dt_call *c); /* bytes of workspace for backward; NULL: none */
};

/* Runs `op` on n_in operands. Returns its first result, NULL after an error. */
DT_API dt_tensor *dt_apply(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in,
                           const void *options);

/* In shape(): makes result `i`, a new tensor lent by the tape, uninitialized. */
DT_API dt_status dt_result(dt_call *c, int i, dt_dtype dtype, int rank, const int64_t *dims);

/* In shape(): refuses the call. The message gets the op's name in front and the operands' shapes
 * behind. Returns `status`. */
DT_API dt_status dt_refuse(const dt_call *c, dt_status status, const char *format, ...)
    DT_PRINTF(3, 4);

/* ---- elementwise --------------------------------------------------------------------------- */

/* y = tanh(x) */
DT_API dt_tensor *dt_tanh(dt_tape *t, dt_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
