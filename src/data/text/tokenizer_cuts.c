/* How pre_tokenizers split text into the pieces within which BPE merges.
 *
 *   ByteLevel   GPT-2's expression (use_regex), or nothing
 *   Split       an expression of dt__splits, or a string
 *   Digits      runs of digits, or each one, apart from the rest
 *   Metaspace   before each sign of a space (split), or nothing */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <string.h>

size_t dt__cut_bytes(const dt__step *s, const unsigned char *p, const unsigned char *end)
{
    return s->on ? dt__split_gpt2(p, end) : (size_t)(end - p);
}

static const unsigned char *find(const unsigned char *p, const unsigned char *end, const char *text)
{
    while (p < end && !dt__text_begins(p, end, text)) p++;
    return p;
}

/* Splits at a string. A piece that begins with it is the string alone or, with DT__WITH_NEXT,
 * extends to the next occurrence. */
static size_t next_string(const char *text, int behavior, const unsigned char *p,
                          const unsigned char *end)
{
    const size_t n = strlen(text);
    const unsigned char *q = dt__text_begins(p, end, text) ? p + n : p;
    if (q > p && (behavior != DT__WITH_NEXT || dt__text_begins(q, end, text))) return n;
    q = find(q, end, text);
    if (behavior == DT__WITH_PREVIOUS && q < end) q += n;
    return (size_t)(q - p);
}

size_t dt__cut_split(const dt__step *s, const unsigned char *p, const unsigned char *end)
{
    return s->split != NULL ? s->split->next(p, end) : next_string(s->to, s->choice, p, end);
}

size_t dt__cut_sign(const dt__step *s, const unsigned char *p, const unsigned char *end)
{
    return s->on ? next_string(s->to, DT__WITH_NEXT, p, end) : (size_t)(end - p);
}

#define NUMBER 4 /* a class of dt__split_class */

static bool is_digit(const unsigned char *p, const unsigned char *end, int *n)
{
    *n = dt__utf8_length(p, end);
    const bool is = *n > 0 && dt__split_class(dt__utf8_get(p, *n)) == NUMBER;
    if (*n == 0) *n = 1;
    return is;
}

size_t dt__cut_digits(const dt__step *s, const unsigned char *p, const unsigned char *end)
{
    int n;
    const bool digit = is_digit(p, end, &n);
    const unsigned char *q = p + n;
    if (digit && s->on) return (size_t)n;
    while (q < end && is_digit(q, end, &n) == digit) q += n;
    return (size_t)(q - p);
}
