/* Glob matching without recursion: after a mismatch the latest `*` takes one more character.
 * Earlier ones need not be retried, since they could only give away characters that the latest can
 * take. Time is at worst the product of the lengths. */
#include "core/core.h"
#include "core/text/glob.h"

#include <string.h>

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

bool dt__glob_selects(const char *pattern, const char *path)
{
    char above[DT__MESSAGE_SIZE];
    size_t end = strlen(path);
    if (end >= sizeof above) return dt__glob_match(pattern, path);
    memcpy(above, path, end + 1);
    while (!dt__glob_match(pattern, above)) {
        if (end == 0) return false;
        while (end > 0 && above[end - 1] != '.') end--;
        if (end > 0) end--;
        above[end] = '\0';
    }
    return true;
}
