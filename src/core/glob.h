/* Patterns over paths of modules and parameters. */
#ifndef DT__CORE_GLOB_H
#define DT__CORE_GLOB_H

#include <stdbool.h>

/* Whether all of `path` matches: `*` stands for any characters, dots and none at all included, `?`
 * for exactly one, everything else for itself. */
bool dt__glob_match(const char *pattern, const char *path);
/* Whether that holds of `path`, or of what it begins with up to one of its dots: a pattern selects
 * what lies below, too. */
bool dt__glob_selects(const char *pattern, const char *path);

#endif
