/* A writer of text, JSON and YAML into a sink. After the first failure it writes nothing more and
 * keeps the status. */
#ifndef DT__TRAIN_OUT_H
#define DT__TRAIN_OUT_H

#include "train/recipe/recipe.h"

typedef struct dt__out {
    dt_sink sink;
    void *user;
    dt_status status;
    int column; /* characters since the last newline */
    int indent;
    bool comma; /* JSON: this object or list has an element already */
} dt__out;

void dt__out_bytes(dt__out *o, const char *text, size_t bytes);
void dt__out_text(dt__out *o, const char *text);
/* For short text: truncates at 255 bytes. */
void dt__out_format(dt__out *o, const char *format, ...) DT_PRINTF(2, 3);
void dt__out_real(dt__out *o, double value);
/* A number; integers without exponent and point. */
void dt__out_int(dt__out *o, int64_t value);

/* JSON, indented by two spaces. `name` NULL: an element of a list. */
void dt__out_open(dt__out *o, const char *name, char bracket);
void dt__out_close(dt__out *o, char bracket);
void dt__out_name(dt__out *o, const char *name); /* a value must follow */
void dt__out_json(dt__out *o, const char *text);
void dt__out_field(dt__out *o, const char *name, const char *text); /* a string */

/* A scalar of YAML, quoted if necessary. */
void dt__out_yaml(dt__out *o, const char *text);

#endif
