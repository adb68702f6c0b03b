/* Prompt formats: a text with fields in braces, "Question: {question}\n". A field is replaced by
 * its value; {{ and }} are braces. */
#ifndef DT__DATA_PROMPT_FORMAT_H
#define DT__DATA_PROMPT_FORMAT_H

#include "core/text/json.h"

#define DT__MOST_FIELDS 16

/* A field's name or value. */
typedef struct dt__run_of_text {
    const char *bytes; /* NULL: a field without a value */
    size_t n;
} dt__run_of_text;

/* Names of fields, each once; they point into the formats. */
typedef struct dt__fields {
    int n;
    dt__run_of_text name[DT__MOST_FIELDS];
} dt__fields;

/* Adds the fields of a format. Errors, with the reason and the byte: CONFIG (an unmatched brace, a
 * field without a name, no field, too many). */
dt_status dt__format_fields(dt_ctx *ctx, const char *format, dt__fields *fields);

/* Appends a format, checked by dt__format_fields, with the values of its fields. */
void dt__format_put(const char *format, const dt__fields *fields, const dt__run_of_text *value,
                    dt__chars *to);
/* Whether all fields of the format have empty values. */
bool dt__format_is_empty(const char *format, const dt__fields *fields,
                         const dt__run_of_text *value);

/* Reads an object: fields must be strings, each once; others are skipped. *given: number of fields
 * found. Values are in j->strings. Errors: FORMAT. */
dt_status dt__fields_read(dt__json *j, const dt__fields *fields, dt__run_of_text *value,
                          int *given);

#endif
