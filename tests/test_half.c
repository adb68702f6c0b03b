/* Half precision, and floats of at most 8 bits: every code, every midpoint between neighbours and
 * the floats next to it, against a value computed in double. */
#include "testing.h"

#include "core/text/half.h"
#include "core/text/small_float.h"

#include <math.h>

/* The value of a code, by definition. */
static double value_of(unsigned code, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = (int)(code & ((1u << mantissa_bits) - 1));
    double v;
    if (exponent == (1 << exponent_bits) - 1) {
        v = mantissa == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        v = ldexp(mantissa, 1 - bias - mantissa_bits);
    } else {
        v = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    }
    return (code & 0x8000u) != 0 ? -v : v;
}

typedef struct kind {
    int exponent_bits, mantissa_bits;
    uint16_t (*to)(float);
    float (*from)(uint16_t);
    float (*round)(float);
} kind;

static const kind kinds[] = {
    { 5, 10, dt__f32_to_f16, dt__f16_to_f32, dt__round_f16 },
    { 8, 7, dt__f32_to_bf16, dt__bf16_to_f32, dt__round_bf16 },
};

START_TEST(every_code_is_its_float)
{
    const kind *k = &kinds[_i];
    for (unsigned code = 0; code < 65536; code++) {
        const float x = k->from((uint16_t)code);
        const double want = value_of(code, k->exponent_bits, k->mantissa_bits);
        if (isnan(want)) {
            ck_assert(isnan(x));
            const unsigned quiet = 1u << (k->mantissa_bits - 1);
            ck_assert_uint_eq(k->to(x), code | quiet);
            continue;
        }
        ck_assert_msg((double)x == want && !signbit(x) == !signbit(want), "code %#x", code);
        ck_assert_uint_eq(k->to(x), code);
        ck_assert(k->round(x) == x);
    }
}
END_TEST

/* After the largest finite number comes the number that would follow it; rounding to that
 * overflows. */
static double next_value(const kind *k, unsigned code)
{
    const double v = value_of(code, k->exponent_bits, k->mantissa_bits);
    const double next = value_of(code + 1, k->exponent_bits, k->mantissa_bits);
    return isinf(next) ? 2 * v - value_of(code - 1, k->exponent_bits, k->mantissa_bits) : next;
}

START_TEST(midpoints_go_to_even)
{
    const kind *k = &kinds[_i];
    const unsigned infinity = ((1u << k->exponent_bits) - 1) << k->mantissa_bits;
    for (unsigned code = 0; code < infinity; code++) {
        const double low = value_of(code, k->exponent_bits, k->mantissa_bits);
        const float middle = (float)((low + next_value(k, code)) / 2);
        const unsigned even = (code & 1) == 0 ? code : code + 1;
        ck_assert_msg(k->to(middle) == even, "between %#x and the next", code);
        ck_assert_msg(k->to(-middle) == (even | 0x8000u), "below -%#x", code);
        ck_assert_msg(k->to(nextafterf(middle, 0)) == code, "under the middle after %#x", code);
        ck_assert_msg(k->to(nextafterf(middle, INFINITY)) == code + 1, "over the middle after %#x",
                      code);
    }
}
END_TEST

START_TEST(the_ends_of_the_range)
{
    ck_assert_uint_eq(dt__f32_to_f16(65519.996f), 0x7bff);
    ck_assert_uint_eq(dt__f32_to_f16(65520.0f), 0x7c00);
    ck_assert_uint_eq(dt__f32_to_f16(-3.4e38f), 0xfc00);
    ck_assert_uint_eq(dt__f32_to_f16(-INFINITY), 0xfc00);
    ck_assert_uint_eq(dt__f32_to_f16(0x1p-25f), 0);
    ck_assert_uint_eq(dt__f32_to_f16(-0x1p-149f), 0x8000);
    ck_assert_uint_eq(dt__f32_to_bf16(3.4028235e38f), 0x7f80);
    ck_assert_uint_eq(dt__f32_to_bf16(-0x1p-149f), 0x8000);
    ck_assert(signbit(dt__round_f16(-0.0f)) && signbit(dt__round_bf16(-0.0f)));
}
END_TEST

static const struct small {
    const dt__small_float *f;
    int exponent_bits;
    unsigned most; /* code of the largest value */
} smalls[] = {
    { &dt__e2m1, 2, 0x7 }, { &dt__e3m2, 3, 0x1f }, { &dt__e4m3, 4, 0x7e }, { &dt__e5m2, 5, 0x7b }
};

/* Of a small float, none of whose codes up to `most` is infinite. */
static double small_value(const struct small *k, unsigned code)
{
    const int m = k->f->mantissa, exponent = (int)code >> m,
              mantissa = (int)(code & ((1u << m) - 1));
    const int bias = (1 << (k->exponent_bits - 1)) - 1;
    return ldexp(mantissa + (exponent > 0 ? 1 << m : 0), (exponent > 0 ? exponent : 1) - bias - m);
}

START_TEST(small_floats)
{
    const struct small *k = &smalls[_i];
    const dt__small_float *f = k->f;
    const unsigned sign = 1u << (f->bits - 1);
    ck_assert_int_le(1 + k->exponent_bits + f->mantissa, f->bits);
    ck_assert(f->edge == f->most + ldexpf(1, ilogbf(f->most) - f->mantissa - 1));
    ck_assert((double)f->most == small_value(k, k->most));
    for (unsigned code = 0; code <= k->most; code++) {
        const float v = (float)small_value(k, code);
        ck_assert_msg(dt__small_value(f, (uint8_t)code) == v, "code %#x", code);
        ck_assert(dt__small_value(f, (uint8_t)(code | sign)) == -v);
        ck_assert(dt__small_has(f, (uint8_t)code) && dt__small_has(f, (uint8_t)(code | sign)));
        ck_assert_uint_eq(dt__small_code(f, v), code);
        ck_assert_uint_eq(dt__small_code(f, -v), code | sign);
        ck_assert(dt__small_round(f, v) == v && dt__small_round(f, -v) == -v);
        if (code == k->most) continue;
        const float next = (float)small_value(k, code + 1), middle = (v + next) / 2;
        const float even = code % 2 == 0 ? v : next;
        ck_assert(dt__small_round(f, middle) == even && dt__small_round(f, -middle) == -even);
        ck_assert(dt__small_round(f, nextafterf(middle, 0)) == v);
        ck_assert(dt__small_round(f, nextafterf(middle, INFINITY)) == next);
    }
    for (unsigned code = k->most + 1; code < sign; code++) {
        ck_assert(!dt__small_has(f, (uint8_t)code) && !dt__small_has(f, (uint8_t)(code | sign)));
    }
    ck_assert(dt__small_round(f, INFINITY) == f->most && dt__small_round(f, -3.4e38f) == -f->most);
    ck_assert(signbit(dt__small_round(f, -0.0f)) && dt__small_round(f, 0x1p-149f) == 0);
}
END_TEST

Suite *test_half_suite(void)
{
    Suite *s = suite_create("half");
    TCase *c = tcase_create("half");
    tcase_add_loop_test(c, every_code_is_its_float, 0, 2);
    tcase_add_loop_test(c, midpoints_go_to_even, 0, 2);
    tcase_add_test(c, the_ends_of_the_range);
    tcase_add_loop_test(c, small_floats, 0, (int)(sizeof smalls / sizeof smalls[0]));
    suite_add_tcase(s, c);
    return s;
}
