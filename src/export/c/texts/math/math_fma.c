/* a * b + c, rounded once. FMA_BY_INTEGERS chooses the way of processors without an instruction for
 * it: integers (Cortex-M0, M3: double is slow there), or double. */
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__) ||                         \
    defined(__ARM_FEATURE_FMA) || defined(__riscv_flen)
#define FMA_BUILTIN
#elif !defined(FMA_BY_INTEGERS) && !defined(__x86_64__) && !defined(__SSE2__) &&                   \
    !defined(__s390x__) && !defined(__powerpc__) && !(defined(__ARM_FP) && (__ARM_FP & 8))
#define FMA_BY_INTEGERS
#endif

#if defined(FMA_BUILTIN) && !defined(FMA_BY_INTEGERS)
static float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#elif !defined(FMA_BY_INTEGERS)
/* A double holds the product exactly. The sum is rounded to odd: its last bit is 1 where it is not
 * exact, so that rounding it to float is the only rounding. A sum that is not finite stays. */
static float fma32(float a, float b, float c)
{
    const double p = (double)a * (double)b, d = (double)c, s = p + d;
    const double t = s - p, e = (p - (s - t)) + (d - t); /* s + e is the exact sum */
    uint64_t bits;
    double odd;
    memcpy(&bits, &s, sizeof bits);
    if (e != 0 && s - s == 0 && (bits & 1) == 0) bits += (e > 0) == (s > 0) ? 1u : (uint64_t)-1;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}
#else
/* v = (-1)^negative * digits * 2^(power - 61), digits in 2^61 ... 2^62 - 1; 0 for v = 0. */
static uint64_t fma32_digits(uint64_t digits, int32_t *power)
{
    if (digits == 0) return 0;
    while (digits < (uint64_t)1 << 46) {
        digits <<= 15;
        *power -= 15;
    }
    while (digits < (uint64_t)1 << 61) {
        digits <<= 1;
        *power -= 1;
    }
    return digits;
}

/* digits >> n; the last bit is 1 where a bit was lost. */
static uint64_t fma32_shift(uint64_t digits, int32_t n)
{
    if (n <= 0) return digits;
    if (n > 62) return digits != 0;
    return digits >> n | ((digits & (((uint64_t)1 << n) - 1)) != 0);
}

/* The float nearest to digits * 2^(power - 61), digits below 2^63, half to even. */
static uint32_t fma32_round(uint64_t digits, int32_t power)
{
    if (digits >> 62) {
        digits = fma32_shift(digits, 1);
        power++;
    }
    digits = fma32_digits(digits, &power);
    if (digits == 0) return 0;
    if (power > 127) return 0x7f800000u;
    if (power < -126) { /* a denormal number */
        digits = fma32_shift(digits, -126 - power);
        power = -127;
    }
    const uint64_t kept = digits >> 38, rest = digits & (((uint64_t)1 << 38) - 1);
    const uint64_t half = (uint64_t)1 << 37;
    const uint32_t up = rest > half || (rest == half && (kept & 1) != 0);
    const uint32_t fraction = (uint32_t)kept & (power == -127 ? 0xffffffffu : 0x7fffffu);
    return ((uint32_t)(power + 127) << 23) + fraction + up;
}

static float fma32(float a, float b, float c)
{
    uint32_t u[3];
    uint64_t digits[3];
    int32_t power[3], i;
    float result;
    memcpy(&u[0], &a, sizeof a);
    memcpy(&u[1], &b, sizeof b);
    memcpy(&u[2], &c, sizeof c);
    for (i = 0; i < 3; i++) {
        const uint32_t exponent = u[i] >> 23 & 255, fraction = u[i] & 0x7fffffu;
        digits[i] = exponent != 0 ? fraction | 0x800000u : fraction;
        power[i] = (int32_t)(exponent != 0 ? exponent : 1) - 127;
    }
    if (power[0] == 128 || power[1] == 128) return a * b + c; /* infinity or NaN */
    if (power[2] == 128) return c;
    if (digits[0] == 0 || digits[1] == 0) return a * b + c; /* a zero: nothing is rounded */
    uint32_t sign = (u[0] ^ u[1]) & 0x80000000u, other = u[2] & 0x80000000u;
    int32_t p = power[0] + power[1] + 15, q = power[2] + 38; /* 61 - 46, 61 - 23 */
    uint64_t x = fma32_digits(digits[0] * digits[1], &p), y = fma32_digits(digits[2], &q), sum;
    if (y != 0 && (q > p || (q == p && y > x))) { /* x is to be the larger one */
        const uint64_t keep = x;
        const int32_t keep_power = p;
        const uint32_t keep_sign = sign;
        x = y, p = q, sign = other;
        y = keep, q = keep_power, other = keep_sign;
    }
    y = y == 0 ? 0 : fma32_shift(y, p - q);
    sum = sign == other ? x + y : x - y;
    u[0] = fma32_round(sum, p);
    if (sum != 0) u[0] |= sign; /* a difference of 0 is +0 */
    memcpy(&result, &u[0], sizeof result);
    return result;
}
#endif
