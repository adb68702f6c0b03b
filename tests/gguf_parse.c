/* Parses GGUF [ggml, docs/gguf.md], for tests of what format gguf writes. */
#include "gguf_parse.h"
#include "testing.h"

#include "core/text/byte_order.h"
#include "core/text/half.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t number(gguf_parsed *g, size_t *at, size_t bytes)
{
    uint64_t x = 0;
    ck_assert_uint_le(*at + bytes, g->size);
    for (size_t i = 0; i < bytes; i++) x |= (uint64_t)g->bytes[*at + i] << (8 * i);
    *at += bytes;
    return x;
}

static void name(gguf_parsed *g, size_t *at, char text[96])
{
    const size_t n = (size_t)number(g, at, 8);
    ck_assert_uint_lt(n, 96);
    ck_assert_uint_le(*at + n, g->size);
    memcpy(text, g->bytes + *at, n);
    text[n] = 0;
    *at += n;
}

static void skip_value(gguf_parsed *g, uint32_t type, size_t *at)
{
    static const size_t bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    ck_assert_uint_lt(type, 13);
    if (type == 8) {
        const size_t n = (size_t)number(g, at, 8);
        *at += n;
    }
    *at += bytes[type];
    ck_assert_uint_le(*at, g->size);
}

static void parse_pair(gguf_parsed *g, gguf_pair *p, size_t *at)
{
    name(g, at, p->key);
    p->type = (uint32_t)number(g, at, 4);
    p->of = p->type;
    if (p->type == 9) {
        p->of = (uint32_t)number(g, at, 4);
        p->n = number(g, at, 8);
        p->at = *at;
        for (uint64_t i = 0; i < p->n; i++) skip_value(g, p->of, at);
        return;
    }
    p->at = *at;
    if (p->type == 8) {
        p->n = number(g, at, 8);
        p->at = *at;
        *at += (size_t)p->n;
    } else {
        skip_value(g, p->type, at);
    }
}

static size_t bytes_of(const gguf_tensor *t)
{
    const size_t n = (size_t)t->count;
    if (t->type == 0) return 4 * n;
    if (t->type == 1) return 2 * n;
    if (t->type == 10 || t->type == 11) {
        ck_assert_uint_eq(t->extent[0] % 256, 0);
        return n / 256 * (t->type == 10 ? 84 : 110);
    }
    if (t->type == 34 || t->type == 35) {
        ck_assert_uint_eq(t->extent[0] % 256, 0);
        return n / 256 * (t->type == 34 ? 54 : 66);
    }
    if (t->type == 41 || t->type == 42) {
        ck_assert_uint_eq(t->extent[0] % (t->type == 41 ? 128 : 64), 0);
        return n / (t->type == 41 ? 128 : 64) * 18;
    }
    ck_assert(t->type == 2 || t->type == 8);
    ck_assert_uint_eq(t->extent[0] % 32, 0);
    return n / 32 * (t->type == 2 ? 18 : 34);
}

gguf_parsed *gguf_parse(const char *path)
{
    gguf_parsed *g = calloc(1, sizeof *g);
    ck_assert(g != NULL);
    g->bytes = (unsigned char *)test_read_file(path, &g->size);
    size_t at = 4;
    ck_assert(g->size > 24 && memcmp(g->bytes, "GGUF", 4) == 0);
    ck_assert_uint_eq(number(g, &at, 4), 3);
    g->n_tensors = (int)number(g, &at, 8);
    g->n_pairs = (int)number(g, &at, 8);
    ck_assert(g->n_tensors <= 128 && g->n_pairs <= 64);
    for (int i = 0; i < g->n_pairs; i++) parse_pair(g, &g->pair[i], &at);
    g->infos = at;
    for (int i = 0; i < g->n_tensors; i++) {
        gguf_tensor *t = &g->tensor[i];
        name(g, &at, t->name);
        t->rank = (uint32_t)number(g, &at, 4);
        ck_assert(t->rank >= 1 && t->rank <= 4);
        t->count = 1;
        for (uint32_t d = 0; d < t->rank; d++) {
            t->extent[d] = number(g, &at, 8);
            t->count *= (int64_t)t->extent[d];
        }
        t->type = (uint32_t)number(g, &at, 4);
        t->at = (size_t)number(g, &at, 8);
        ck_assert_uint_eq(t->at % 32, 0);
    }
    g->data = (at + 31) / 32 * 32;
    size_t end = g->data;
    for (int i = 0; i < g->n_tensors; i++) { /* in order, without gaps but for the alignment */
        g->tensor[i].at += g->data;
        ck_assert_uint_eq(g->tensor[i].at, end);
        end += (bytes_of(&g->tensor[i]) + 31) / 32 * 32;
    }
    ck_assert_uint_eq(end, g->size);
    return g;
}

void gguf_free(gguf_parsed *g)
{
    free(g->bytes);
    free(g);
}

const gguf_pair *gguf_pair_of(const gguf_parsed *g, const char *key)
{
    for (int i = 0; i < g->n_pairs; i++) {
        if (strcmp(g->pair[i].key, key) == 0) return &g->pair[i];
    }
    return NULL;
}

const gguf_tensor *gguf_tensor_of(const gguf_parsed *g, const char *name)
{
    for (int i = 0; i < g->n_tensors; i++) {
        if (strcmp(g->tensor[i].name, name) == 0) return &g->tensor[i];
    }
    return NULL;
}

uint32_t gguf_u32(const gguf_parsed *g, const char *key)
{
    uint32_t x;
    const gguf_pair *p = gguf_pair_of(g, key);
    ck_assert_msg(p != NULL && p->type == 4, "no u32 %s", key);
    dt__copy_little(&x, g->bytes + p->at, sizeof x);
    return x;
}

float gguf_f32(const gguf_parsed *g, const char *key)
{
    const gguf_pair *p = gguf_pair_of(g, key);
    float value;
    ck_assert_msg(p != NULL && p->type == 6, "no f32 %s", key);
    dt__copy_little(&value, g->bytes + p->at, sizeof value);
    return value;
}

bool gguf_says(const gguf_parsed *g, const char *key, const char *text)
{
    const gguf_pair *p = gguf_pair_of(g, key);
    return p != NULL && p->type == 8 && p->n == strlen(text) &&
           memcmp(g->bytes + p->at, text, strlen(text)) == 0;
}

void gguf_string(const gguf_parsed *g, const char *key, uint64_t i, char *text, size_t size)
{
    const gguf_pair *p = gguf_pair_of(g, key);
    ck_assert_msg(p != NULL && p->type == 9 && p->of == 8 && i < p->n, "no string of %s", key);
    size_t at = p->at;
    for (uint64_t k = 0;; k++) {
        const size_t n = (size_t)number((gguf_parsed *)(uintptr_t)g, &at, 8);
        ck_assert_uint_lt(n, size);
        memcpy(text, g->bytes + at, n);
        text[n] = 0;
        at += n;
        if (k == i) return;
    }
}

/* A block of 256 in Q2_K (10) or Q3_K (11), in the order of the file: two halves, of which each
 * shift of 32 bytes gives 32 values, in two parts with a scale each. */
static void long_block(const unsigned char *b, uint32_t type, float *y)
{
    const unsigned char *codes = b + (type == 10 ? 16 : 32), *scales = b + 96;
    uint16_t half[2];
    unsigned bit = 1;
    int part = 0;
    dt__copy_little(&half[0], b + (type == 10 ? 80 : 108), 2);
    if (type == 10) dt__copy_little(&half[1], b + 82, 2);
    for (int turn = 0; turn < 8; turn++, bit <<= 1) {
        if (turn == 4) codes += 32;
        for (int at = 0; at < 32; at += 16, part++) {
            for (int l = at; l < at + 16; l++) {
                const int two = codes[l] >> 2 * (turn % 4) & 3;
                const int nibble = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
                const int six = nibble + 16 * (scales[8 + part % 4] >> 2 * (part / 4) & 3);
                const int three = b[l] & bit ? two : two - 4;
                *y++ = type == 10 ? dt__f16_to_f32(half[0]) * (float)(b[part] % 16 * two) -
                                        dt__f16_to_f32(half[1]) * (float)(b[part] / 16)
                                  : dt__f16_to_f32(half[0]) * (float)((six - 32) * three);
            }
        }
    }
}

/* A block of 256 in TQ1_0 (34) or TQ2_0 (35), in the order of the file. */
static void ternary_block(const unsigned char *b, uint32_t type, float *y)
{
    static const int runs[3][3] = { { 32, 32, 5 }, { 16, 16, 5 }, { 4, 4, 4 } };
    uint16_t half;
    dt__copy_little(&half, b + (type == 34 ? 52 : 64), 2);
    for (int j = 0; type == 35 && j < 64; j += 32) {
        for (int n = 0; n < 4; n++) {
            for (int m = 0; m < 32; m++) *y++ = (float)((b[j + m] >> 2 * n & 3) - 1);
        }
    }
    for (int i = 0; type == 34 && i < 3; i++) {
        for (int n = 0, power = 1; n < runs[i][2]; n++, power *= 3) {
            for (int m = 0; m < runs[i][1]; m++) {
                *y++ = (float)(((uint8_t)(b[m] * power) * 3 >> 8) - 1);
            }
        }
        b += runs[i][0];
    }
    for (int i = 1; i <= 256; i++) y[-i] *= dt__f16_to_f32(half);
}

/* Element i of blocks of 18 bytes: of 128 in Q1_0 (41), of 64 in Q2_0 (42). */
static float few_levels(const unsigned char *p, uint32_t type, int64_t i)
{
    const int bits = type == 41 ? 1 : 2, each = 128 / bits;
    const unsigned char *b = p + i / each * 18;
    const int64_t bit = i % each * bits;
    uint16_t half;
    dt__copy_little(&half, b, 2);
    const int code = b[2 + bit / 8] >> bit % 8 & (type == 41 ? 1 : 3);
    return dt__f16_to_f32(half) * (float)(type == 41 ? 2 * code - 1 : code - 1);
}

float *gguf_values(const gguf_parsed *g, const gguf_tensor *t)
{
    float *y = malloc(((size_t)t->count + 1) * sizeof *y);
    const unsigned char *p = g->bytes + t->at;
    ck_assert(y != NULL);
    for (int64_t i = 0; i < t->count; i++) {
        uint16_t half;
        if (t->type >= 41) {
            y[i] = few_levels(p, t->type, i);
        } else if (t->type >= 34) {
            ternary_block(p + i / 256 * (t->type == 34 ? 54 : 66), t->type, y + i);
            i += 255;
        } else if (t->type >= 10) {
            long_block(p + i / 256 * (t->type == 10 ? 84 : 110), t->type, y + i);
            i += 255;
        } else if (t->type == 0) {
            dt__copy_little(&y[i], p + 4 * i, 4);
        } else if (t->type == 1) {
            dt__copy_little(&half, p + 2 * i, 2);
            y[i] = dt__f16_to_f32(half);
        } else if (t->type == 8) {
            dt__copy_little(&half, p + i / 32 * 34, 2);
            y[i] = dt__f16_to_f32(half) * (float)(int8_t)p[i / 32 * 34 + 2 + i % 32];
        } else {
            const unsigned char *b = p + i / 32 * 18;
            const int byte = b[2 + i % 16];
            dt__copy_little(&half, b, 2);
            y[i] = dt__f16_to_f32(half) * (float)((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
        }
    }
    return y;
}
