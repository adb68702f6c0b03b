/* Codes of a model as blocks of GGUF files (gguf_values.c of src/io has the layouts). Codes and
 * scales are the model's own: nothing is rounded. Blocks of 256 get one scale for all of their
 * parts: s = 1, and in Q2_K, which has codes from 0 on, n = 2 and m = d: x = code d - 2 d. If all
 * codes of a block of Q2_K are odd, as in scheme half_levels, s = 2 and n = 3. */
#include "core/text/byte_order.h"
#include "core/text/half.h"
#include "export/gguf/gguf_put.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *put_half(unsigned char *to, float scale)
{
    const uint16_t h = dt__f32_to_f16(scale);
    dt__copy_little(to, &h, sizeof h);
    return to + sizeof h;
}

static void put_q8_0(const int8_t *code, float scale, unsigned char *to)
{
    memcpy(put_half(to, scale), code, DT__GGUF_BLOCK);
}

static void put_q4_0(const int8_t *code, float scale, unsigned char *to)
{
    const int half = DT__GGUF_BLOCK / 2;
    to = put_half(to, scale);
    for (int j = 0; j < half; j++) {
        to[j] = (unsigned char)((code[j] + 8) | (code[j + half] + 8) << 4);
    }
}

/* Writes the two low bits of (code + offset) / step, in 64 bytes. */
static void put_low_bits(const int8_t *code, int offset, int step, unsigned char *to)
{
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        const int bits = (code[e] + offset) / step & 3;
        to[e / 128 * 32 + e % 32] |= (unsigned char)(bits << (e / 32 % 4 * 2));
    }
}

static void put_q2_k(const int8_t *code, float scale, unsigned char *to)
{
    bool odd = true;
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) odd &= code[e] & 1;
    memset(to, 0, 80);
    memset(to, odd ? 2 | 3 << 4 : 1 | 2 << 4, 16);
    put_low_bits(code, odd ? 3 : 2, odd ? 2 : 1, to + 16);
    put_half(put_half(to + 80, scale), scale);
}

static void put_q3_k(const int8_t *code, float scale, unsigned char *to)
{
    memset(to, 0, 96);
    put_low_bits(code, 4, 1, to + 32);
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        to[e % 32] |= (unsigned char)((code[e] + 4) >> 2 << (e / 32));
    }
    memset(to + 96, 0x11, 8); /* 1 + 32 = 33 in 6 bits, 16 times: low four bits 1, high two 2 */
    memset(to + 104, 0xaa, 4);
    put_half(to + 108, scale);
}

static void put_tq2_0(const int8_t *code, float scale, unsigned char *to)
{
    memset(to, 0, 64);
    put_low_bits(code, 1, 1, to);
    put_half(to + 64, scale);
}

static void put_tq1_0(const int8_t *code, float scale, unsigned char *to)
{
    static const unsigned power[] = { 81, 27, 9, 3, 1 };
    unsigned number[52] = { 0 };
    for (int e = 0; e < DT__GGUF_LONG_BLOCK; e++) {
        int byte, digit;
        dt__gguf_digit(e, &byte, &digit);
        number[byte] += (unsigned)(code[e] + 1) * power[digit];
    }
    for (int i = 0; i < 52; i++) to[i] = (unsigned char)((number[i] * 256 + 242) / 243);
    put_half(to + 52, scale);
}

/* The scale is half of a power of two (scheme mxfp4). */
static void put_mxfp4(const int8_t *code, float scale, unsigned char *to)
{
    static const int8_t values[] = { 0, 1, 2, 3, 4, 6, 8, 12 };
    const int half = DT__GGUF_BLOCK / 2;
    int exponent, place[DT__GGUF_BLOCK];
    (void)frexpf(scale, &exponent);
    to[0] = (unsigned char)(exponent + 127);
    for (int e = 0; e < DT__GGUF_BLOCK; e++) {
        for (place[e] = 0; values[place[e]] != abs(code[e]);) place[e]++;
        if (code[e] < 0) place[e] |= 8;
    }
    for (int j = 0; j < half; j++) to[1 + j] = (unsigned char)(place[j] | place[j + half] << 4);
}

/* One bit per code: 1 if it is positive (scheme binary). */
static void put_q1_0(const int8_t *code, float scale, unsigned char *to)
{
    to = put_half(to, scale);
    memset(to, 0, DT__GGUF_Q1_BLOCK / 8);
    for (int e = 0; e < DT__GGUF_Q1_BLOCK; e++) {
        to[e / 8] |= (unsigned char)((code[e] > 0) << e % 8);
    }
}

/* Levels -1, 0, 1 and 2. Codes from -2 to 1 are stored negated, with a negative scale. */
static void put_q2_0(const int8_t *code, float scale, unsigned char *to)
{
    bool below = false;
    for (int e = 0; e < DT__GGUF_Q2_BLOCK; e++) below |= code[e] == -2;
    to = put_half(to, below ? -scale : scale);
    memset(to, 0, DT__GGUF_Q2_BLOCK / 4);
    for (int e = 0; e < DT__GGUF_Q2_BLOCK; e++) {
        to[e / 4] |= (unsigned char)((below ? 1 - code[e] : 1 + code[e]) << e % 4 * 2);
    }
}

typedef void put_block(const int8_t *code, float scale, unsigned char *to);

static const struct {
    uint32_t id;
    put_block *put;
} blocks[] = { { DT__GGUF_Q8_0, put_q8_0 },   { DT__GGUF_Q4_0, put_q4_0 },
               { DT__GGUF_Q2_K, put_q2_k },   { DT__GGUF_Q3_K, put_q3_k },
               { DT__GGUF_TQ1_0, put_tq1_0 }, { DT__GGUF_TQ2_0, put_tq2_0 },
               { DT__GGUF_MXFP4, put_mxfp4 }, { DT__GGUF_Q1_0, put_q1_0 },
               { DT__GGUF_Q2_0, put_q2_0 } };

void dt__gguf_put_block(const dt__gguf_type *type, const int8_t *code, float scale,
                        unsigned char *to)
{
    for (int i = 0; i < DT__COUNT_OF(blocks); i++) {
        if (blocks[i].id == type->id) blocks[i].put(code, scale, to);
    }
}
