/* Values of blocks in GGUF files [ggml]. d and m are f16; elements are stored in order unless
 * stated otherwise.
 *
 *     Q8_0   d, 32 codes                             x = code d
 *     Q4_0   d, 16 bytes: byte j has code j + 8 and, above it, code j + 16 plus 8    x = code d
 *     Q2_K   16 bytes for 16 elements each: s, and n above it; 64 bytes of codes; d, m
 *                                                    x = (d s) code - (m n)
 *     Q3_K   32 bytes of high bits; 64 bytes of low ones; s of 16 elements each, 6 bits plus 32, in
 *            12 bytes; d                             x = d s (code - 4)

 *     TQ2_0  64 bytes of codes plus 1, as two low bits; d                            x = code d
 *     TQ1_0  52 bytes of up to five digits, codes plus 1 in base 3; d                x = code d
 *     MXFP4  e; 16 bytes as Q4_0's, of places in 0 1 2 3 4 6 8 12 and their negatives
 *                                                    x = code 2^(e - 128)
 *     Q1_0   d, 16 bytes of bits, the lowest first                    x = d where it is 1, else -d
 *     Q2_0   d, 16 bytes of two bits, the lowest first                x = (code - 1) d
 *
 * A byte of digits t_0 ... t_4 is the number 0.t_0 t_1 ... t_4 in base 3, times 256, rounded up;
 * multiplied by 3^i its high product has t_i. Elements 0 ... 159 are in bytes 0 ... 31, 160 ... 239
 * in 32 ... 47, each digit a row of 32 or 16 elements; 240 ... 255 in four bytes of four digits.
 *
 * Of a block of 256, element e = 128 h + 32 j + l has its two low bits at bit 2 j of byte 32 h + l,
 * and its third at bit 4 h + j of byte l. The low four bits of s of part p are in byte p % 8, above
 * each other; its high two are at bit 2 (p / 4) of byte 8 + p % 4. */
#include "core/text/byte_order.h"
#include "core/text/half.h"
#include "io/gguf/gguf.h"

#include <math.h>

static float half_at(const unsigned char *from)
{
    uint16_t h;
    dt__copy_little(&h, from, sizeof h);
    return dt__f16_to_f32(h);
}

void dt__gguf_q8_0(const unsigned char *from, float *x)
{
    const float d = half_at(from);
    for (int j = 0; j < DT__GGUF_BLOCK; j++) x[j] = (float)(int8_t)from[2 + j] * d;
}

void dt__gguf_q4_0(const unsigned char *from, float *x)
{
    const float d = half_at(from);
    const int half = DT__GGUF_BLOCK / 2;
    for (int j = 0; j < half; j++) {
        x[j] = (float)((from[2 + j] & 15) - 8) * d;
        x[j + half] = (float)((from[2 + j] >> 4) - 8) * d;
    }
}

/* The two low bits of element e's code. */
static int low_bits(const unsigned char *codes, int e)
{
    return codes[e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3;
}

void dt__gguf_q2_k(const unsigned char *from, float *x)
{
    const unsigned char *part = from, *codes = from + 16;
    const float d = half_at(from + 80), m = half_at(from + 82);
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        const float s = d * (float)(part[e / 16] & 15), n = m * (float)(part[e / 16] >> 4);
        x[e] = s * (float)low_bits(codes, e) - n;
    }
}

void dt__gguf_q3_k(const unsigned char *from, float *x)
{
    const unsigned char *high = from, *codes = from + 32, *part = from + 96;
    const float d = half_at(from + 108);
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        const int p = e / 16, low = part[p % 8] >> (p / 8 * 4) & 15;
        const int s = (low | (part[8 + p % 4] >> (p / 4 * 2) & 3) << 4) - 32;
        const int code = low_bits(codes, e) | (high[e % 32] >> (e / 32) & 1) << 2;
        x[e] = d * (float)s * (float)(code - 4);
    }
}

void dt__gguf_digit(int e, int *byte, int *digit)
{
    const int first = e < 160 ? 0 : e < 240 ? 160 : 240;
    const int width = e < 160 ? 32 : e < 240 ? 16 : 4;
    *byte = (e < 160 ? 0 : e < 240 ? 32 : 48) + (e - first) % width;
    *digit = (e - first) / width;
}

void dt__gguf_tq1_0(const unsigned char *from, float *x)
{
    static const unsigned power[] = { 1, 3, 9, 27, 81 };
    const float d = half_at(from + 52);
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        int byte, digit;
        dt__gguf_digit(e, &byte, &digit);
        const unsigned rest = from[byte] * power[digit] & 255;
        x[e] = (float)((int)(rest * 3 >> 8) - 1) * d;
    }
}

void dt__gguf_tq2_0(const unsigned char *from, float *x)
{
    const float d = half_at(from + 64);
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) x[e] = (float)(low_bits(from, e) - 1) * d;
}

void dt__gguf_mxfp4(const unsigned char *from, float *x)
{
    static const float code[] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };
    const int half = DT__GGUF_BLOCK / 2;
    const float d = ldexpf(1, from[0] - 128);
    for (int j = 0; j < half; j++) {
        x[j] = code[from[1 + j] & 15] * d;
        x[j + half] = code[from[1 + j] >> 4] * d;
    }
}

void dt__gguf_q1_0(const unsigned char *from, float *x)
{
    const float d = half_at(from);
    for (int e = 0; e < DT__GGUF_Q1_BLOCK; e++) x[e] = from[2 + e / 8] >> e % 8 & 1 ? d : -d;
}

void dt__gguf_q2_0(const unsigned char *from, float *x)
{
    const float d = half_at(from);
    for (int e = 0; e < DT__GGUF_Q2_BLOCK; e++) {
        x[e] = (float)((from[2 + e / 4] >> e % 4 * 2 & 3) - 1) * d + 0; /* + 0: not -0 */
    }
}
