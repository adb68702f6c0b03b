/* What the names of files consist of, as data.file_names says: {digit}_{group}_{index}.wav. */
#ifndef DT__DATA_NAME_PATTERN_H
#define DT__DATA_NAME_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* What {field} is in the name of a file, behind its folder. A field has at least one character, and
 * ends before the first occurrence of the text behind it in the pattern; the last text ends the
 * name. False: the name is not of this form. */
bool dt__name_field(const char *pattern, const char *path, const char *field, const char **begin,
                    size_t *n);
/* What is wrong with a pattern, or NULL; the pattern itself is not checked elsewhere. */
const char *dt__name_pattern_fault(const char *pattern);
bool dt__name_pattern_has(const char *pattern, const char *field);

#endif
