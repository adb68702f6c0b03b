/* A view of a file with other names of its tensors. */
#ifndef DT__IO_RENAMED_FILE_H
#define DT__IO_RENAMED_FILE_H

#include "io/model/model.h"

typedef struct dt__renamed {
    /* tensors that rules do not leave out, under their new names, in the file's order */
    dt_file view;
    int64_t *by;   /* for each tensor of the file: the rule that matches its name; -1: none */
    int64_t *from; /* for each tensor of the view: its index in the file */
} dt__renamed;

/* Errors: CONFIG (dt_name_rule_check), NOMEM. dt__renamed_close must be called also after an
 * error. */
dt_status dt__renamed_open(const dt_file *file, const dt_name_rule *rule, int64_t n,
                           dt__renamed *out);
void dt__renamed_close(dt__renamed *r);
/* Whether a rule matches the name of a tensor of the file. */
bool dt__renamed_uses(const dt__renamed *r, const dt_file *file, int64_t rule);

#endif
