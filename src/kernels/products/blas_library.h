/* Dense algebra of doubles, for rounding with calibration data: OpenBLAS, which contains LAPACK, or
 * another BLAS and LAPACK. The library is loaded at first use, since OpenBLAS starts threads when
 * it is loaded and takes 128 MiB of address space for each. */
#ifndef DT__KERNELS_BLAS_LIBRARY_H
#define DT__KERNELS_BLAS_LIBRARY_H

#include "core/core.h"

#include <cblas.h>

/* LAPACK, which OpenBLAS has without a header; column-major. */
void dpotrf_(const char *triangle, const int *n, double *a, const int *lda, int *info);
void dtrtri_(const char *triangle, const char *diagonal, const int *n, double *a, const int *lda,
             int *info);

#define DT__BLAS_FUNCTIONS(F)                                                                      \
    F(cblas_ddot)                                                                                  \
    F(cblas_dgemm)                                                                                 \
    F(cblas_dsyrk)                                                                                 \
    F(cblas_dtrmm)                                                                                 \
    F(cblas_dtrsm)                                                                                 \
    F(cblas_sgemm)

#define DT__LAPACK_FUNCTIONS(F)                                                                    \
    F(dpotrf_)                                                                                     \
    F(dtrtri_)

#define DT__OPENBLAS_FUNCTIONS(F)                                                                  \
    F(openblas_get_config)                                                                         \
    F(openblas_get_corename)                                                                       \
    F(openblas_get_num_threads)                                                                    \
    F(openblas_set_num_threads)

typedef struct dt__blas_library {
#define DT__BLAS_FUNCTION(name) __typeof__(name) *name;
    DT__BLAS_FUNCTIONS(DT__BLAS_FUNCTION)
    DT__LAPACK_FUNCTIONS(DT__BLAS_FUNCTION)
    DT__OPENBLAS_FUNCTIONS(DT__BLAS_FUNCTION)
#undef DT__BLAS_FUNCTION
} dt__blas_library;

extern dt__blas_library dt__blas; /* after dt__blas_load */

/* Loads OpenBLAS once in a process, or the system's BLAS and LAPACK, where it is missing or the
 * environment's DETENT_BLAS is "system"; sets OpenBLAS to one thread unless
 * ctx->leave_blas_threads. Errors: NOMEM without room for its buffers, STATE where it is
 * missing. */
dt_status dt__blas_load(dt_ctx *ctx);

#endif
