/* Glob matching in one pass: after a mismatch only the latest `*` needs to take one character more,
 * since any earlier one could only give away what the latest can take. Time is the product of the
 * lengths at worst. */
#include "core/glob.h"

#include <stddef.h>

bool dt__glob_match(const char *pattern, const char *path)
{
    const char *star = NULL, *taken = NULL;
    while (*path != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            taken = path;
        } else if (*pattern != '\0' && (*pattern == '?' || *pattern == *path)) {
            pattern++;
            path++;
        } else if (star != NULL) {
            pattern = star + 1;
            path = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}
