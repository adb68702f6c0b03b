/* SHA-256 as FIPS 180-4 describes it. Its constants are the first 32 bits of the fractional parts
 * of square and cube roots of primes; they are computed here. */
#include "sha256.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct state {
    uint32_t h[8], k[64];
} state;

static uint32_t fraction(long double x) { return (uint32_t)((x - floorl(x)) * 4294967296.0L); }

static void begin(state *s)
{
    int n = 0;
    for (int p = 2; n < 64; p++) {
        int d = 2;
        while (d < p && p % d != 0) d++;
        if (d < p) continue;
        if (n < 8) s->h[n] = fraction(sqrtl(p));
        s->k[n++] = fraction(cbrtl(p));
    }
}

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void block(state *s, const unsigned char *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t a = v[0], e = v[4];
        const uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                             ((e & v[5]) ^ (~e & v[6])) + s->k[i] + w[i];
        const uint32_t two =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

void test_sha256(const void *data, size_t bytes, char out[65])
{
    state s;
    const unsigned char *p = data;
    unsigned char last[128] = { 0 };
    const size_t tail = bytes % 64, room = tail < 56 ? 64 : 128;
    begin(&s);
    for (size_t i = 0; i + 64 <= bytes; i += 64) block(&s, p + i);
    memcpy(last, p + (bytes - tail), tail);
    last[tail] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[room - 1 - i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    for (size_t i = 0; i < room; i += 64) block(&s, last + i);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", (unsigned)s.h[i]);
}
