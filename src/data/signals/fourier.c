/* Fourier transform of real numbers (fourier.h). */
#include "data/signals/fourier.h"

#include <math.h>

#define PI 3.14159265358979323846

typedef struct complex_number {
    float r, i;
} complex_number;

static complex_number at(const float *z, int i)
{
    return (complex_number){ z[2 * i], z[2 * i + 1] };
}

static void set(float *z, int i, float real, float imaginary)
{
    z[2 * i] = real;
    z[2 * i + 1] = imaginary;
}

static complex_number product(complex_number a, complex_number b)
{
    return (complex_number){ a.r * b.r - a.i * b.i, a.r * b.i + a.i * b.r };
}

void dt__fourier_tables(int n, float *turns, float *joins)
{
    const int half = n / 2;
    for (int i = 0; i < half; i++) {
        const double angle = -2 * PI * i / half;
        set(turns, i, (float)cos(angle), (float)sin(angle));
    }
    for (int i = 0; i == 0 || i < half / 2; i++) {
        const double angle = -PI * ((double)(i + 1) / half + 0.5);
        set(joins, i, (float)cos(angle), (float)sin(angle));
    }
}

/* Reverses the digits of k in base 4, of which the last may be in base 2. */
int dt__fourier_place(int half, int k)
{
    int place = 0;
    for (int m = half; m > 1;) {
        const int base = m % 4 == 0 ? 4 : 2;
        m /= base;
        place += k % base * m;
        k /= base;
    }
    return place;
}

/* Combines the transforms of m numbers at 0, m, 2m and 3m to one of 4m numbers; computes output
 * k. */
static void join_four(float *z, int m, const float *turns, int turn)
{
    const complex_number a = at(z, 0), b = product(at(z, m), at(turns, turn));
    const complex_number c = product(at(z, 2 * m), at(turns, 2 * turn));
    const complex_number d = product(at(z, 3 * m), at(turns, 3 * turn));
    const complex_number even = { a.r + c.r, a.i + c.i }, odd = { a.r - c.r, a.i - c.i };
    const complex_number sum = { b.r + d.r, b.i + d.i }, rest = { b.r - d.r, b.i - d.i };
    set(z, 0, even.r + sum.r, even.i + sum.i);
    set(z, m, odd.r + rest.i, odd.i - rest.r);
    set(z, 2 * m, even.r - sum.r, even.i - sum.i);
    set(z, 3 * m, odd.r - rest.i, odd.i + rest.r);
}

/* Replaces z by its transform. */
static void transform(float *z, int half, const float *turns)
{
    int m = half;
    while (m % 4 == 0) m /= 4;
    for (int i = 0; m == 2 && i < half; i += 2) {
        const complex_number a = at(z, i), b = at(z, i + 1);
        set(z, i, a.r + b.r, a.i + b.i);
        set(z, i + 1, a.r - b.r, a.i - b.i);
    }
    for (; m < half; m *= 4) {
        for (int block = 0; block < half; block += 4 * m) {
            for (int k = 0; k < m; k++) {
                join_four(z + 2 * (block + k), m, turns, k * (half / (4 * m)));
            }
        }
    }
}

static float power(float real, float imaginary) { return real * real + imaginary * imaginary; }

/* With a = Z[i], b = the conjugate of Z[n/2 - i], t = join (a - b):
 *     X[i] = (a + b + t) / 2,      X[n/2 - i] = the conjugate of (a + b - t) / 2 */
void dt__fourier_powers(float *z, int n, const float *turns, const float *joins)
{
    const int half = n / 2;
    transform(z, half, turns);
    set(z, 0, power(z[0] + z[1], 0), power(z[0] - z[1], 0));
    for (int i = 1; i <= half / 2; i++) {
        const complex_number a = at(z, i), b = at(z, half - i);
        const complex_number sum = { a.r + b.r, a.i - b.i };
        const complex_number t =
            product((complex_number){ a.r - b.r, a.i + b.i }, at(joins, i - 1));
        z[2 * i] = power((sum.r + t.r) * 0.5F, (sum.i + t.i) * 0.5F);
        z[2 * (half - i)] = power((sum.r - t.r) * 0.5F, (t.i - sum.i) * 0.5F);
    }
}
