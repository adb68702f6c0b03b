/* Formulas are computed as written: products and sums are not fused, since results are promised bit
 * for bit. */
#ifdef __FAST_MATH__
#error "-ffast-math changes results: compile detent.c without it"
#endif
#if defined __clang__
#pragma STDC FP_CONTRACT OFF
#elif defined __GNUC__ && !defined __STRICT_ANSI__ /* with -std=c17 it is the default */
#pragma GCC optimize("fp-contract=off")
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* `omp simd` requires -fopenmp-simd, and cases are for detent's tests. */
#if defined __GNUC__
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
/* Fields are left out on purpose, and error texts are truncated; values that a refusal leaves unset
 * are not read. */
#if defined __clang__
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#elif defined __GNUC__
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "detent.h"
