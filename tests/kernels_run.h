/* Cases of kernels: each makes operands and calls one kernel of whatever table it is given, so that
 * the same call can be made with every table and what it wrote be compared.
 *
 * A case draws extents, options and values from the run; the same round draws the same. Operands
 * lie in slots that end at a page nobody may touch, with guard bytes before them. What a kernel has
 * to fill holds other bytes in each run, so that an element left out differs too. */
#ifndef KERNELS_RUN_H
#define KERNELS_RUN_H

#include "testing.h"

#include "kernels/sets.h"

/* Rounds walk through sizes; every walk has values of another kind. */
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
    int calls; /* of the kernel; more than one where it is timed */
    double started, ns;
} kernel_run;

/* A run with nothing in it; the room is returned with kernel_close. */
void kernel_open(kernel_run *r);
void kernel_close(kernel_run *r);
/* Forgets the blocks, and begins round `round` with a table. */
void kernel_begin(kernel_run *r, const dt__kernels *kernels, int round, uint8_t poison);

/* KERNEL_CALL(r, f(x, y)): the call, again and again where it is timed. */
#define KERNEL_CALL(r, ...)                                                                        \
    for ((r)->calls = 0; kernel_again(r);) __VA_ARGS__
bool kernel_again(kernel_run *r);

/* ---- what a case draws ----------------------------------------------------------------------- */

int64_t kernel_below(kernel_run *r, int64_t n); /* 0 ... n - 1 */
/* One of n variants of a call; the first, which is the usual one, where it is timed. */
int kernel_pick(kernel_run *r, int n);
bool kernel_chance(kernel_run *r);        /* one of two, "no" where it is timed */
int64_t kernel_size(const kernel_run *r); /* the round's: 0 ... some ten thousand */
/* A small one; smaller where n, the product of the other extents, is large. */
int64_t kernel_extent(kernel_run *r, int64_t n);
float kernel_float(kernel_run *r); /* as the round has them */
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

/* What the kernel fills. Of a matrix only the first n of ld elements of a row are filled. */
float *kernel_result(kernel_run *r, int64_t n);
float *kernel_result_rows(kernel_run *r, int64_t rows, int64_t n, int64_t ld);
double *kernel_result_doubles(kernel_run *r, int64_t n);
uint8_t *kernel_result_bytes(kernel_run *r, int64_t n);
/* y, or x where the kernel may work in place and the round says so. */
float *kernel_result_or(kernel_run *r, int64_t n, float *x);
/* What a kernel returned, to be compared. */
void kernel_returned(kernel_run *r, int64_t value);

/* ---- comparing ------------------------------------------------------------------------------- */

/* True where both runs have the same bytes (any NaN equals any; with `within` > 0 floats may differ
 * by that much of the larger), and nothing was written outside. Else says what and where. */
bool kernel_same(const kernel_run *a, const kernel_run *b, double within, char message[200]);

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct kernel_case {
    const char *name; /* as in kernels.inc */
    void (*run)(kernel_run *r);
    double within; /* 0: same bits. Else the stated bound on the relative difference */
} kernel_case;

/* The last one has no name. */
extern const kernel_case kernel_cases_float[], kernel_cases_integer[];

/* KERNEL_CASE(name, maker, within) in a list: maker(r, f) is called with the kernel's pointer, so
 * that the compiler sees that the maker suits the kernel. */
#define KERNEL_CASE_FUNCTION(name, maker, within)                                                  \
    static void run_##name(kernel_run *r) { maker(r, r->kernels->name); }
#define KERNEL_CASE_ENTRY(name, maker, within) { #name, run_##name, within },

#endif
