/* Splits text into the pieces within which byte-level BPE merges. The first alternative that
 * matches is taken; \s is Unicode's White_Space, \p{L} and \p{N} are its general categories L*
 * and N*.
 *
 *   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   Llama 3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 *            | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *   Qwen2    the same with \p{N} in place of \p{N}{1,3}
 *
 * A byte that is not part of valid UTF-8 counts as one character of no class. */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <utf8proc.h>

/* Classes of characters, as bits. */
enum {
    OTHER = 1,
    LETTER = 2,
    NUMBER = 4,
    SPACE = 8,
    LINE = 16
}; /* LINE: \r and \n, which are \s */

#define LONG_S 0x17f /* the only non-ASCII character that matches s without regard to case */

static int class_of_ascii(unsigned c)
{
    if ((c | 32) - 'a' < 26u) return LETTER;
    if (c - '0' < 10u) return NUMBER;
    if (c == '\r' || c == '\n') return LINE;
    return c == ' ' || c - '\t' < 5u ? SPACE : OTHER;
}

static bool is_space(uint32_t c)
{
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int class_of(uint32_t c)
{
    if (is_space(c)) return SPACE;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return NUMBER;
    default: return OTHER;
    }
}

int dt__split_class(uint32_t c) { return c < 0x80 ? class_of_ascii(c) : class_of(c); }

/* Class and length of the character at `p`; class 0 at the end. */
static int class_at(const unsigned char *p, const unsigned char *end, int *bytes)
{
    *bytes = 1;
    if (p == end) return 0;
    if (*p < 0x80) return class_of_ascii(*p);
    const int n = dt__utf8_length(p, end);
    if (n == 0) return OTHER;
    *bytes = n;
    return class_of(dt__utf8_get(p, n));
}

/* Skips at most `most` characters of the classes. */
static const unsigned char *skip(const unsigned char *p, const unsigned char *end, int classes,
                                 int64_t most)
{
    int n;
    for (; most > 0 && (class_at(p, end, &n) & classes) != 0; most--) p += n;
    return p;
}

/* The length of 's 't 're 've 'm 'll 'd; 0 if there is none. */
static size_t contraction(const unsigned char *p, const unsigned char *end, bool any_case)
{
    static const char *const tails[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (*p != '\'') return 0;
    for (int i = 0; i < DT__COUNT_OF(tails); i++) {
        const char *c = tails[i];
        const unsigned char *q = p + 1;
        while (*c != 0 && q < end && (any_case && *q < 0x80 ? *q | 32 : *q) == (unsigned char)*c) {
            c++;
            q++;
        }
        if (*c == 0) return (size_t)(q - p);
    }
    const int n = any_case && p + 1 < end ? dt__utf8_length(p + 1, end) : 0;
    return n == 2 && dt__utf8_get(p + 1, n) == LONG_S ? 3 : 0;
}

/* A run of white space: all of it at the end of the text; a single character alone; otherwise
 * without its last character, which belongs to the next piece. With `lines`, up to the last \r or
 * \n of the run if it has one. */
static size_t spaces(const unsigned char *p, const unsigned char *end, bool lines)
{
    const unsigned char *q = p, *last = p, *after_line = p;
    int klass, n;
    while (((klass = class_at(q, end, &n)) & (SPACE | LINE)) != 0) {
        last = q;
        q += n;
        if (klass == LINE) after_line = q;
    }
    if (lines && after_line > p) return (size_t)(after_line - p);
    return (size_t)((q == end || last == p ? q : last) - p);
}

size_t dt__split_gpt2(const unsigned char *p, const unsigned char *end)
{
    int n;
    const size_t short_form = contraction(p, end, false);
    if (short_form > 0) return short_form;
    const unsigned char *q = *p == ' ' ? p + 1 : p;
    const int klass = class_at(q, end, &n) & (LETTER | NUMBER | OTHER);
    if (klass == 0) return spaces(p, end, false);
    return (size_t)(skip(q, end, klass, INT64_MAX) - p);
}

/* Llama 3's, with at most `digits` digits in a piece. */
static size_t split_words(const unsigned char *p, const unsigned char *end, int digits)
{
    int n, after;
    const size_t short_form = contraction(p, end, true);
    if (short_form > 0) return short_form;
    const int klass = class_at(p, end, &n);
    const unsigned char *q = (klass & (OTHER | SPACE)) != 0 ? p + n : p;
    if (class_at(q, end, &after) == LETTER) {
        return (size_t)(skip(q, end, LETTER, INT64_MAX) - p);
    }
    if (klass == NUMBER) return (size_t)(skip(p, end, NUMBER, digits) - p);
    q = *p == ' ' ? p + 1 : p;
    if (class_at(q, end, &after) != OTHER) return spaces(p, end, true);
    return (size_t)(skip(skip(q, end, OTHER, INT64_MAX), end, LINE, INT64_MAX) - p);
}

static size_t split_llama3(const unsigned char *p, const unsigned char *end)
{
    return split_words(p, end, 3);
}

size_t dt__split_qwen2(const unsigned char *p, const unsigned char *end)
{
    return split_words(p, end, 1);
}

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define AFTER_NUMBER "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define AFTER_SHORT "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const dt__split dt__splits[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d" AFTER_SHORT, dt__split_gpt2, 0 },
    { "'(?:[sdmt]|ll|ve|re)" AFTER_SHORT, dt__split_gpt2, 0 },
    { WORDS "\\p{N}{1,3}" AFTER_NUMBER, split_llama3, 3 },
    { WORDS "\\p{N}" AFTER_NUMBER, dt__split_qwen2, 1 },
    { NULL, NULL, 0 },
};
