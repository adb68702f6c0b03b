/* Maps the tensor names of Hugging Face to ours; marks tensors that are fused or transposed. */
#ifndef DT__IO_HF_NAMES_H
#define DT__IO_HF_NAMES_H

#include "core/text/json.h"
#include "io/safetensors/safetensors.h"

#define DT__HF_PARTS 3

/* A tensor of a class, which contains the rows of these tensors of the family, one after the other.
 * `*` is the number of a block. Three parts are queries, keys and values. */
typedef struct dt__hf_row {
    const char *theirs;
    const char *ours[DT__HF_PARTS];
    bool turned;  /* the file's tensor is [in, out] */
    bool by_head; /* all parts of the first head come first, then those of the next head */
} dt__hf_row;

typedef struct dt__hf_names {
    const dt__hf_row *rows;     /* the list ends with .theirs NULL */
    const char *prefix;         /* of all their names; may be missing in files. NULL: none */
    const char *const *skipped; /* buffers that are not read; NULL: none */
} dt__hf_names;

extern const dt__hf_names dt__hf_phi3_names, dt__hf_gpt2_names, dt__hf_neox_names;

/* How a folder's tensors are divided into the model's. */
typedef struct dt__hf_cutting {
    const dt__hf_names *names; /* NULL: the names are the family's */
    int64_t queries, keys;     /* rows of q; of k, and of v */
    int64_t heads;             /* number of heads, for rows that are sorted by head */
} dt__hf_cutting;

/* Adds the model's tensors that e contains, at most DT__HF_PARTS, to the folder's entries, none for
 * a buffer. *taken false: the table does not have e. FORMAT, NOMEM. */
dt_status dt__hf_cut(dt_file *folder, const dt_file_entry *e, const dt__hf_cutting *c, bool *taken);

/* The row whose tensor contains this parameter, which part it is, and the class's name; NULL: name
 * and form are the family's. */
const dt__hf_row *dt__hf_row_of(const dt__hf_names *names, const char *path, int *part,
                                char theirs[DT__SHOWN]);
/* The path of part `part` of the row; `path` is that of part `of`. */
void dt__hf_part_name(const dt__hf_row *r, int part, const char *path, int of,
                      char text[DT__SHOWN]);
int dt__hf_row_parts(const dt__hf_row *r);

#endif
