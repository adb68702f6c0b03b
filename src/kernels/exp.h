/* e^x, e^x - 1, tanh x, log x and 1 - erf x of floats, by operations that every compiler
 * vectorizes: no table, no branch, no call. Exports of format c compute them by the same operations
 * (src/export/c/texts/math), so nothing here may depend on a C library.
 *     n = rne(x / ln 2)      r = x - n ln 2      e^x = 2^n (1 + (r + r^2 p(r)))
 * with |r| <= 0.347. In floats n ln 2 is subtracted in two parts, the first of them exact, and p
 * has five terms with an error of 1e-8: results are within a relative 9e-8 of exact ones, denormal
 * results within 3/4 ulp. In doubles p is the power series, with an error of 2e-10. */
#ifndef DT__KERNELS_EXP_H
#define DT__KERNELS_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* p such that e^r - 1 = r p, and r, for |x| <= 700. Adding 1.5 * 2^52 leaves n in the low bits of
 * *shifted. */
static inline double dt__exp_reduced(double x, double *r, double *shifted)
{
    const double magic = 0x1.8p52;
    *shifted = x * 1.4426950408889634074 + magic;
    const double rest = x - (*shifted - magic) * 0.69314718055994530942;
    double p = 1.0 / 40320;
    p = p * rest + 1.0 / 5040;
    p = p * rest + 1.0 / 720;
    p = p * rest + 1.0 / 120;
    p = p * rest + 1.0 / 24;
    p = p * rest + 1.0 / 6;
    p = p * rest + 0.5;
    p = p * rest + 1;
    *r = rest;
    return p;
}

/* x 2^n: the low bits of `shifted` are shifted into the exponent. */
static inline double dt__exp_scaled(double x, double shifted)
{
    uint64_t n, bits;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&bits, &x, sizeof bits);
    bits += n << 52;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* For |x| <= 700. */
static inline double dt__exp_series(double x)
{
    double r, shifted;
    const double p = dt__exp_reduced(x, &r, &shifted);
    return dt__exp_scaled(p * r + 1, shifted);
}

/* Adding 1.5 * 2^23 leaves n in the low bits. 2^n may not be a normal float, so it is two factors.
 * x is clamped, in a form that compiles without a branch, to where the factors give 0 and infinity.
 * NaN gives NaN. */
static inline float dt__exp_f32(float x)
{
    const float magic = 0x1.8p23F;
    const float v = fabsf(x) > 104.0F ? copysignf(104.0F, x) : x;
    const float shifted = v * 1.44269504F + magic;
    const float n = shifted - magic;
    const float r = (v - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
    float p = 0.0013926184F;
    p = p * r + 0.0083631791F;
    p = p * r + 0.041666555F;
    p = p * r + 0.16666577F;
    p = p * r + 0.5F;
    p = (p * (r * r) + r) + 1;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const int32_t k = bits - 0x4b400000, half = k >> 1;
    const uint32_t first = (uint32_t)(half + 127) << 23, second = (uint32_t)(k - half + 127) << 23;
    float a, b;
    memcpy(&a, &first, sizeof a);
    memcpy(&b, &second, sizeof b);
    return p * a * b;
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1) for x <= 88, without cancellation near 0. NaN gives NaN. */
static inline float dt__expm1_f32(float x)
{
    double r, shifted;
    const double p = dt__exp_reduced((double)(x < -40 ? -40 : x), &r, &shifted);
    const double power = dt__exp_scaled(1, shifted);
    return (float)(power * (r * p) + (power - 1));
}

/* sign(x) (1 - e) / (1 + e) with e = e^(-2|x|); near 0, where that cancels, x - x^3/3 + 2
 * x^5/15. */
static inline float dt__tanh_f32(float x)
{
    const double v = (double)x, a = fabs(v);
    const double e = dt__exp_series(-2 * (a > 20 ? 20 : a));
    const double square = a * a;
    const double near = a * (1 - square * (1.0 / 3 - square * (2.0 / 15)));
    return (float)copysign(a < 0.02 ? near : (1 - e) / (1 + e), v);
}

/* The logarithm of a normal double x > 0, within 2e-16 or a relative 4e-16; infinity and NaN are
 * themselves.
 *     x = 2^e m, m in 0.7 ... 1.42      s = (m - 1) / (m + 1)
 *     log x = e ln 2 + 2 s (1 + s^2 / 3 + s^4 / 5 + ...) */
static inline double dt__log_series(double x)
{
    uint64_t bits, places;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t above = bits - 0x3fe6a09e667f3bcd, e = above & 0xfff0000000000000;
    bits -= e;
    places = ((above >> 52) ^ 0x800) | 0x4330000000000000; /* 2^52 + e + 2048, as a double */
    double m, power;
    memcpy(&m, &bits, sizeof m);
    memcpy(&power, &places, sizeof power);
    power -= 0x1p52 + 2048;
    const double s = (m - 1) / (m + 1), q = s * s;
    double p = 1.0 / 21;
    p = p * q + 1.0 / 19;
    p = p * q + 1.0 / 17;
    p = p * q + 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    const double part = 2 * s + (2 * s * (q * p) + power * 0x1.ef35793c76730p-45);
    const double y = power * 0x1.62e42fefa3800p-1 + part;
    return x - x == 0 ? y : x;
}

/* The same for any float. */
static inline float dt__log_f32(float x)
{
    const double v = (double)x, y = dt__log_series(v > 0 ? v : 1);
    return (float)(v > 0 ? y : v == 0 ? -(double)INFINITY : (double)NAN);
}

/* The complement of the error function of |v|, 1 - erf |v|, also where that is tiny: for a = |v|
 *     e^(-a^2) p((a - 3) / (a + 3)), p a polynomial with a relative error of 5e-11. */
static inline double dt__erfc_tail(double v)
{
    const double size = fabs(v), a = size > 11 ? 11 : size;
    const double t = (a - 3) / (a + 3);
    double p = -1.272057613340478e-06;
    p = p * t - 9.984228359755892e-06;
    p = p * t - 1.1023093082304223e-05;
    p = p * t + 6.638302371623089e-05;
    p = p * t + 4.521968986364729e-05;
    p = p * t - 0.0005978930583781629;
    p = p * t + 0.0007075980175355635;
    p = p * t + 0.00426927009303601;
    p = p * t - 0.024392467629521544;
    p = p * t + 0.07166582722202919;
    p = p * t - 0.15011593868546752;
    p = p * t + 0.24560380200334497;
    p = p * t - 0.32623356000439707;
    p = p * t + 0.17900115117986248;
    return dt__exp_series(-(a * a)) * p;
}

static inline float dt__erfc_f32(float x)
{
    const double v = (double)x, tail = dt__erfc_tail(v);
    return (float)(v < 0 ? 2 - tail : tail);
}

/* The error function; near 0, where 1 - erfc cancels, by its power series. */
static inline float dt__erf_f32(float x)
{
    const double v = (double)x, s = v * v, far = 1 - dt__erfc_tail(v);
    const double near =
        v * (1.12837916709551257390 - s * (0.37612638903183752 - s * 0.11283791670955126));
    return (float)(s < 1e-3 ? near : v < 0 ? -far : far);
}

/* sin x and cos x for |x| < 2^31, within 2e-16 of exact ones:
 *     n = rne(x / (pi/2))      r = x - n pi/2, by parts whose products with n are exact
 * The power series of both at |r| <= pi/4; n decides which is sine and which cosine, and signs. */
static inline void dt__sin_cos(double x, double *sine, double *cosine)
{
    const double magic = 0x1.8p52;
    const double shifted = x * 0.63661977236758134308 + magic, n = shifted - magic;
    double r = x - n * 0x1.921fb0p0;
    r -= n * 0x1.5110b0p-22;
    r -= n * 0x1.184690p-44;
    r -= n * 0x1.13198a2e03707p-65;
    const double q = r * r;
    double s = -1.0 / 1307674368000;
    s = s * q + 1.0 / 6227020800;
    s = s * q - 1.0 / 39916800;
    s = s * q + 1.0 / 362880;
    s = s * q - 1.0 / 5040;
    s = s * q + 1.0 / 120;
    s = s * q - 1.0 / 6;
    s = r + r * (q * s);
    double c = 1.0 / 20922789888000;
    c = c * q - 1.0 / 87178291200;
    c = c * q + 1.0 / 479001600;
    c = c * q - 1.0 / 3628800;
    c = c * q + 1.0 / 40320;
    c = c * q - 1.0 / 720;
    c = c * q + 1.0 / 24;
    c = 1 - (0.5 * q - q * q * c);
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const double of_sine = (bits & 1) != 0 ? c : s, of_cosine = (bits & 1) != 0 ? s : c;
    *sine = (bits & 2) != 0 ? -of_sine : of_sine;
    *cosine = ((bits + 1) & 2) != 0 ? -of_cosine : of_cosine;
}

#endif
