/* Products of floats, c = [c +] op(a) * op(b) [+ bias], and the grid of tiles that threads share.
 *
 * Sums have a defined order (numerics §2): from c where accumulated, else from 0, the terms
 * ascending in k, each by a fused multiply-add (of doubles: a product and a sum). So a result does
 * not depend on tiles, threads or instruction sets. */
#ifndef DT__KERNELS_GEMM_H
#define DT__KERNELS_GEMM_H

#include "core/core.h"

/* A part of a matrix: rows r0 ... r1-1 and columns c0 ... c1-1, written to y with leading dimension
 * ldy. */
typedef struct dt__patch {
    int64_t r0, r1, c0, c1;
    void *y;
    int64_t ldy;
} dt__patch;

/* A source: a matrix that is computed on demand. `fill` writes a patch of it, on the calling
 * thread; several threads may call it at once. */
typedef struct dt__source {
    void (*fill)(const void *from, const dt__patch *patch);
    const void *from;
} dt__source;

/* A sink: a result that is not stored as a matrix. `take` gets its patches, each element once;
 * several threads may call it at once. */
typedef struct dt__sink {
    void (*take)(void *to, const dt__patch *patch);
    void *to;
} dt__sink;

/* Row-major: op(a) is [m, k], op(b) is [k, n]. A transposed operand is held as [k, m] or [n, k].
 * k = 0 gives zeros (or leaves c), and then the bias. Leading dimensions are in elements; c must
 * not overlap a or b. An operand may be a source in place of a pointer. c may be a sink if nothing
 * is accumulated. */
typedef struct dt__gemm {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    bool accumulate;
    void *c;
    int64_t ldc;
    const dt__source *a_source, *b_source; /* NULL: in memory */
    const dt__sink *c_sink;                /* NULL: in memory */
    const void *bias;                      /* [n], added to the sum; NULL: none */
    bool alone;    /* one tile, on the calling thread: for products inside of a parallel loop */
    bool coarse;   /* one of many (dt__gemms): use fewer tiles */
    void *scratch; /* dt__gemm_scratch bytes */
} dt__gemm;

/* Tiles are numbered row by row, `across` in each row. */
typedef struct dt__gemm_grid {
    int64_t rows, columns; /* of a tile; the last ones may be smaller */
    int64_t across, tiles;
} dt__gemm_grid;

/* Independent products, whose tiles threads share. Results must not overlap; each has the bits of
 * the kernel `gemm`. Products with the largest tiles should come first. All use `scratch`:
 * dt__gemms_scratch bytes for the largest. */
typedef struct dt__gemm_job {
    dt__gemm g;
    dt__gemm_grid grid; /* set by the kernel, as is `first` */
    int64_t first;      /* number of its first tile among all */
} dt__gemm_job;

typedef struct dt__gemms {
    int64_t n;
    dt__gemm_job *job;
    void *scratch;
} dt__gemms;

/* A tile multiplies packed operands: up to DT__GEMM_ROWS rows and DT__GEMM_TERMS terms of a (1 MiB
 * of floats), and of b panels of DT__GEMM_PANEL columns and up to DT__GEMM_DEPTH terms (32 KiB),
 * which are packed just before all those rows are multiplied by them. With few rows up to
 * DT__GEMM_WIDTH panels are packed at a time; with few terms, as many panels as have that size.
 * Sources are filled DT__GEMM_FILLED elements at a time. A sink has tiles of at most DT__GEMM_SUNK
 * columns.
 *
 * With few rows b is multiplied in place: up to DT__GEMM_FEW rows, DT__GEMM_BAND terms at a time;
 * for a transposed b (x86/products/gemm_transposed.inc) up to DT__GEMM_TRANSPOSED rows, where a is
 * packed as a whole, up to DT__GEMM_WHOLE elements. A set may have lower limits. */
#define DT__GEMM_ROWS 256
#define DT__GEMM_TERMS 1024
#define DT__GEMM_DEPTH 256
#define DT__GEMM_PANEL 32
#define DT__GEMM_TILE_ROWS 1024 /* with matrix tiles; in bf16, so the memory is the same */
#define DT__GEMM_TILE_TERMS 512
#define DT__GEMM_WIDTH 4
#define DT__GEMM_FILLED 10240
#define DT__GEMM_SUNK 512
#define DT__GEMM_FEW 128
#define DT__GEMM_BAND 32
#define DT__GEMM_TRANSPOSED 256
#define DT__GEMM_WHOLE (INT64_C(1) << 18)

/* Elements of a thread's workspace: packed a, packed b, a part of a source, rows for a sink. */
typedef struct dt__gemm_room {
    int64_t a, b, filled, sunk;
} dt__gemm_room;

dt__gemm_room dt__gemm_room_of(const dt__gemm *g);
/* Whether few rows can be multiplied by b in place: in bands of terms; and for a transposed b. */
bool dt__gemm_unpacked(const dt__gemm *g);
bool dt__gemm_transposes(const dt__gemm *g);
static inline int64_t dt__gemm_elements(const dt__gemm_room *r)
{
    return r->a + r->b + r->filled + r->sunk;
}

/* The tiles of a product for this number of threads. */
dt__gemm_grid dt__gemm_grid_of(const dt__gemm *g, int threads);
/* Leading dimension of a filled block with this number of columns. */
int64_t dt__gemm_stride(int64_t columns);
/* Bytes of scratch for this number of threads. */
size_t dt__gemm_scratch(const dt__gemm *g, size_t element, int threads);
/* The same for any products whose extents are at most those of `most`, with the same
 * transpositions, sources and sinks; where b is transposed, k must be that of `most`. */
size_t dt__gemms_scratch(const dt__gemm *most, size_t element, int threads);

#endif
