/* Endings of file names, compared without regard to case. */
#ifndef DT__CORE_ENDING_H
#define DT__CORE_ENDING_H

#include <stdbool.h>
#include <string.h>

/* ASCII only, in every locale. */
static inline bool dt__is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool dt__is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static inline char dt__small_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the m bytes at `at` equal `ending`, which is in lower case, without regard to case. */
static inline bool dt__is_ending(const char *at, const char *ending, size_t m)
{
    size_t i = 0;
    while (i < m && dt__small_letter(at[i]) == ending[i]) i++;
    return i == m;
}

/* Whether a name of n bytes is longer than `ending` and ends in it. */
static inline bool dt__ends_in_of(const char *name, size_t n, const char *ending)
{
    const size_t m = strlen(ending);
    return n > m && dt__is_ending(name + n - m, ending, m);
}

static inline bool dt__ends_in(const char *name, const char *ending)
{
    return dt__ends_in_of(name, strlen(name), ending);
}

/* Whether a name is `ending`, or ends in it; case matters. */
static inline bool dt__has_end(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

#endif
