/* Glob patterns for paths of modules and parameters. */
#ifndef DT__CORE_GLOB_H
#define DT__CORE_GLOB_H

#include <stdbool.h>

/* Whether all of `path` matches: `*` is any number of any characters, dots included, `?` is exactly
 * one character, everything else is itself. */
bool dt__glob_match(const char *pattern, const char *path);
/* Whether `path`, or a prefix of it that ends before a dot, matches: a pattern for a module also
 * selects what is inside of it. */
bool dt__glob_selects(const char *pattern, const char *path);

#endif
