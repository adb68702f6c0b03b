/* Differences between the tensors of a file and those of a model. */
#ifndef DT__IO_DIFFERENCES_H
#define DT__IO_DIFFERENCES_H

#include "io/safetensors/safetensors.h"

/* Formats a dtype ("": none) and dims for a message. */
const char *dt__form_text(const char *dtype, int rank, const int64_t *dims, char text[192]);

/* Names for a message: the first few, and the total number. */
typedef struct dt__wrong_names {
    char text[320];
    int n;
} dt__wrong_names;

/* Whether the list is full, so that a further name would only be counted. */
bool dt__wrong_full(const dt__wrong_names *l);
void dt__wrong_add(dt__wrong_names *l, const char *name, const char *detail);

enum { DT__MISSING, DT__UNEXPECTED, DT__MISSHAPEN, DT__DIFFERENCES };

typedef struct dt__differences {
    dt__wrong_names of[DT__DIFFERENCES];
} dt__differences;

/* Returns FORMAT with a message that lists all differences; DT_OK if there are none. */
dt_status dt__differences_report(const dt_file *file, const dt__differences *d);

#endif
