/* ---- instead of other libraries -------------------------------------------------------------- */

/* Philox4x32-10 [Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", section 3.3], by the
 * names of Random123. */
#define PHILOX_M4x32_0 0xD2511F53u
#define PHILOX_M4x32_1 0xCD9E8D57u
#define PHILOX_W32_0 0x9E3779B9u
#define PHILOX_W32_1 0xBB67AE85u

typedef struct philox4x32_ctr_t {
    uint32_t v[4];
} philox4x32_ctr_t;

typedef struct philox4x32_key_t {
    uint32_t v[2];
} philox4x32_key_t;

static philox4x32_ctr_t philox4x32(philox4x32_ctr_t c, philox4x32_key_t k)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)PHILOX_M4x32_0 * c.v[0], q = (uint64_t)PHILOX_M4x32_1 * c.v[2];
        c = (philox4x32_ctr_t){ { (uint32_t)(q >> 32) ^ c.v[1] ^ k.v[0], (uint32_t)q,
                                  (uint32_t)(p >> 32) ^ c.v[3] ^ k.v[1], (uint32_t)p } };
        k.v[0] += PHILOX_W32_0;
        k.v[1] += PHILOX_W32_1;
    }
    return c;
}

/* Whether a character is shown in messages: utf8proc's categories, as far as messages need them.
 * Code points that Unicode has not assigned count as shown. */
typedef int32_t utf8proc_int32_t;

typedef enum utf8proc_category_t {
    UTF8PROC_CATEGORY_CN,
    UTF8PROC_CATEGORY_CC,
    UTF8PROC_CATEGORY_CF,
    UTF8PROC_CATEGORY_ZL,
    UTF8PROC_CATEGORY_ZP,
    UTF8PROC_CATEGORY_LO /* any other */
} utf8proc_category_t;

static utf8proc_category_t utf8proc_category(utf8proc_int32_t c)
{
    /* characters of format: first and last */
    static const utf8proc_int32_t formats[][2] = {
        { 0xAD, 0xAD },       { 0x600, 0x605 },     { 0x61C, 0x61C },     { 0x6DD, 0x6DD },
        { 0x70F, 0x70F },     { 0x890, 0x891 },     { 0x8E2, 0x8E2 },     { 0x180E, 0x180E },
        { 0x200B, 0x200F },   { 0x202A, 0x202E },   { 0x2060, 0x2064 },   { 0x2066, 0x206F },
        { 0xFEFF, 0xFEFF },   { 0xFFF9, 0xFFFB },   { 0x110BD, 0x110BD }, { 0x110CD, 0x110CD },
        { 0x13430, 0x1343F }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A }, { 0xE0001, 0xE0001 },
        { 0xE0020, 0xE007F },
    };
    if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return UTF8PROC_CATEGORY_CC;
    if (c == 0x2028) return UTF8PROC_CATEGORY_ZL;
    if (c == 0x2029) return UTF8PROC_CATEGORY_ZP;
    if ((c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF) || c > 0x10FFFF) {
        return UTF8PROC_CATEGORY_CN;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (c >= formats[i][0] && c <= formats[i][1]) return UTF8PROC_CATEGORY_CF;
    }
    return UTF8PROC_CATEGORY_LO;
}

/* strerror_r of POSIX: glibc has another one under _GNU_SOURCE. */
static int posix_strerror_r(int error, char *text, size_t size)
{
#ifdef __GLIBC__
    const char *said = strerror_r(error, text, size);
    if (said != text) snprintf(text, size, "%s", said);
    return 0;
#else
    return strerror_r(error, text, size);
#endif
}
#define strerror_r posix_strerror_r
