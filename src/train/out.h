/* Text on its way into a sink: the first failure sticks, and the rest is not written. */
#ifndef DT__TRAIN_OUT_H
#define DT__TRAIN_OUT_H

#include "train/recipe.h"

typedef struct dt__out {
    dt_sink sink;
    void *user;
    dt_status status;
    int column; /* characters since the last newline */
    int indent;
    bool comma; /* JSON: something stands before in this object or list */
} dt__out;

void dt__out_bytes(dt__out *o, const char *text, size_t bytes);
void dt__out_text(dt__out *o, const char *text);
/* Short text only: cut at 255 bytes. */
void dt__out_format(dt__out *o, const char *format, ...) DT_PRINTF(2, 3);
void dt__out_real(dt__out *o, double value);
/* A number without exponent and point where it is an integer. */
void dt__out_int(dt__out *o, int64_t value);

/* JSON, two spaces an indent. `name` NULL: an element of a list. */
void dt__out_open(dt__out *o, const char *name, char bracket);
void dt__out_close(dt__out *o, char bracket);
void dt__out_name(dt__out *o, const char *name); /* a value must follow */
void dt__out_json(dt__out *o, const char *text);
void dt__out_field(dt__out *o, const char *name, const char *text); /* a string */

/* A scalar of YAML, quoted where it must be. */
void dt__out_yaml(dt__out *o, const char *text);

#endif
