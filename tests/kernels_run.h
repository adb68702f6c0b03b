/* Cases of kernels: each makes operands and calls one kernel of a given table, so that the same
 * call can be made with every table and the results be compared.
 *
 * A case draws extents, options and values from the run; the same round draws the same ones. Each
 * operand ends at a page that must not be accessed, and has guard bytes before it. Outputs are
 * filled with different bytes in each run, so that an element that a kernel does not write
 * differs. */
#ifndef KERNELS_RUN_H
#define KERNELS_RUN_H

#include "testing.h"

#include "kernels/sets.h"

/* Rounds go through all sizes, then again with values of another kind. */
enum {
    KERNELS_SIZES = 17,
    KERNELS_ORDINARY = 0, /* of magnitude 1 */
    KERNELS_WIDE,         /* finite, of every magnitude, denormals among them */
    KERNELS_SPECIAL,      /* many zeros of both signs, denormals, infinities, NaN */
    KERNELS_ROUNDS = 3 * KERNELS_SIZES,
    KERNELS_TIMED = KERNELS_ROUNDS /* a round for timing */
};

typedef enum kernel_kind { KERNEL_F32, KERNEL_F64, KERNEL_BYTES } kernel_kind;

typedef struct kernel_block {
    kernel_kind kind;
    size_t bytes;
    uint8_t *data;
} kernel_block;

#define KERNEL_BLOCKS 16

typedef struct kernel_run {
    const dt__kernels *kernels;
    int round;
    uint8_t poison;
    uint64_t state; /* of random numbers */
    uint8_t *room;
    int count;
    kernel_block blocks[KERNEL_BLOCKS];
    int calls; /* calls of the kernel; more than one where it is timed */
    double started, ns;
} kernel_run;

/* Creates a run without operands; kernel_close frees it. */
void kernel_open(kernel_run *r);
void kernel_close(kernel_run *r);
/* Drops all operands and begins round `round` with a table of kernels. */
void kernel_begin(kernel_run *r, const dt__kernels *kernels, int round, uint8_t poison);

/* KERNEL_CALL(r, f(x, y)): makes the call, repeatedly where it is timed. */
#define KERNEL_CALL(r, ...)                                                                        \
    for ((r)->calls = 0; kernel_again(r);) __VA_ARGS__
bool kernel_again(kernel_run *r);

/* ---- random choices of a case ---------------------------------------------------------------- */

int64_t kernel_below(kernel_run *r, int64_t n); /* 0 ... n - 1 */
/* One of n variants of a call; when timed the first, which is the usual one. */
int kernel_pick(kernel_run *r, int n);
bool kernel_chance(kernel_run *r);        /* true or false; false where it is timed */
int64_t kernel_size(const kernel_run *r); /* size of the round: 0 to some ten thousand */
/* A small size; smaller where n, the product of the other extents, is large. */
int64_t kernel_extent(kernel_run *r, int64_t n);
float kernel_float(kernel_run *r); /* of the round's kind of values */
float kernel_ordinary(kernel_run *r);
int kernel_values(const kernel_run *r); /* KERNELS_ORDINARY ... */

/* ---- operands -------------------------------------------------------------------------------- */

void *kernel_block_of(kernel_run *r, kernel_kind kind, size_t bytes, size_t alignment);
float *kernel_floats(kernel_run *r, int64_t n);
float *kernel_finite(kernel_run *r, int64_t n);
float *kernel_ordinaries(kernel_run *r, int64_t n);
double *kernel_doubles(kernel_run *r, int64_t n);
uint8_t *kernel_bytes(kernel_run *r, int64_t n);
/* int32, or int64 where wide: 0 ... below - 1 */
void *kernel_indices(kernel_run *r, int64_t n, int64_t below, bool wide);

/* An output. Of each row of a matrix the kernel fills only the first n of ld elements. */
float *kernel_result(kernel_run *r, int64_t n);
float *kernel_result_rows(kernel_run *r, int64_t rows, int64_t n, int64_t ld);
double *kernel_result_doubles(kernel_run *r, int64_t n);
uint8_t *kernel_result_bytes(kernel_run *r, int64_t n);
/* y or, in rounds that work in place, x. */
float *kernel_result_or(kernel_run *r, int64_t n, float *x);
/* Records what a kernel returned, to be compared. */
void kernel_returned(kernel_run *r, int64_t value);

/* ---- comparing ------------------------------------------------------------------------------- */

/* True where both runs have the same bytes (NaN equals NaN; with `within` > 0 floats may differ by
 * that share of the larger) and no guard byte was written. Otherwise describes the difference. */
bool kernel_same(const kernel_run *a, const kernel_run *b, double within, char message[200]);

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct kernel_case {
    const char *name; /* name in kernels.inc */
    void (*run)(kernel_run *r);
    double within; /* 0: same bits; otherwise the largest relative difference */
} kernel_case;

/* The last one has no name. */
extern const kernel_case kernel_cases_float[], kernel_cases_integer[], kernel_cases_gradients[],
    kernel_cases_bf16[];

/* KERNEL_CASE(name, maker, within) in a list: maker(r, f) is called with the kernel's pointer, so
 * that the compiler checks that maker and kernel have the same signature. */
#define KERNEL_CASE_FUNCTION(name, maker, within)                                                  \
    static void run_##name(kernel_run *r) { maker(r, r->kernels->name); }
#define KERNEL_CASE_ENTRY(name, maker, within) { #name, run_##name, within },

#endif
