/* A view of a file with other names of its tensors. */
#ifndef DT__IO_RENAMED_FILE_H
#define DT__IO_RENAMED_FILE_H

#include "io/model/model.h"

typedef struct dt__renamed {
    dt_file view;  /* tensors that are not left out, under their new names, in the file's order */
    int64_t *by;   /* of each tensor of the file: the rule that matches its name; -1: none */
    int64_t *from; /* of each tensor of the view: which of the file it is */
} dt__renamed;

/* dt__renamed_close must be called also after an error: CONFIG (dt_name_rule_check), NOMEM. */
dt_status dt__renamed_open(const dt_file *file, const dt_name_rule *rule, int64_t n,
                           dt__renamed *out);
void dt__renamed_close(dt__renamed *r);
/* Whether a rule matches the name of a tensor. */
bool dt__renamed_uses(const dt__renamed *r, const dt_file *file, int64_t rule);

#endif
