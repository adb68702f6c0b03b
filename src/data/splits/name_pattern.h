/* Fields in names of files (data.file_names): {digit}_{group}_{index}.wav. */
#ifndef DT__DATA_NAME_PATTERN_H
#define DT__DATA_NAME_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the text of {field} in the name of a file without its folder. A field has at least one
 * character, and ends before the first occurrence of the pattern's text after it; the pattern's
 * last text must end the name. False: the name does not match. */
bool dt__name_field(const char *pattern, const char *path, const char *field, const char **begin,
                    size_t *n);
/* Why a pattern is invalid, or NULL; other functions do not check patterns. */
const char *dt__name_pattern_fault(const char *pattern);
bool dt__name_pattern_has(const char *pattern, const char *field);

#endif
