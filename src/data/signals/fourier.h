/* The discrete Fourier transform of n real f32, n a power of two:
 *     X[i] = sum over k of x[k] exp(-2 pi j i k / n),   i = 0 ... n/2
 * computed from n/2 complex numbers z[k] = x[2k] + j x[2k+1] (Cooley and Tukey 1965, radix 4, with
 * one step of radix 2 if n/2 is not a power of 4). Each operation is rounded to f32, in one order
 * on every processor; C exports contain the same code (src/export/c/texts/signals). */
#ifndef DT__DATA_FOURIER_H
#define DT__DATA_FOURIER_H

#include <stdint.h>

/* Fills turns [n/2][2] with exp(-2 pi j i / (n/2)), and joins [n/4][2] with -j exp(-2 pi j (i + 1)
 * / n), computed in double. Both have at least one element. */
void dt__fourier_tables(int n, float *turns, float *joins);

/* The index for z[k] (of n/2 complex numbers) in the input of dt__fourier_powers. */
int dt__fourier_place(int half, int k);

/* Replaces z [n/2][2], ordered by dt__fourier_place, by powers: |X[i]|^2 at z[2i] for i < n/2, at
 * z[1] for i = n/2. */
void dt__fourier_powers(float *z, int n, const float *turns, const float *joins);

#endif
