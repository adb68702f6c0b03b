/* Maps the tensor names of Hugging Face to ours; marks tensors that are fused or transposed. */
#ifndef DT__IO_HF_NAMES_H
#define DT__IO_HF_NAMES_H

#include "core/text/json.h"
#include "io/safetensors/safetensors.h"

#define DT__HF_PARTS 3

/* A tensor of a class, and the family's tensors whose rows it has one after the other. `*` is the
 * number of a block. Three parts are queries, keys and values. */
typedef struct dt__hf_row {
    const char *theirs;
    const char *ours[DT__HF_PARTS];
    bool turned;  /* theirs is [in, out] */
    bool by_head; /* the rows of all parts of a head come first, then those of the next head */
} dt__hf_row;

typedef struct dt__hf_names {
    const dt__hf_row *rows;     /* end with .theirs NULL */
    const char *prefix;         /* of all of theirs, which folders may lack; NULL: none */
    const char *const *skipped; /* buffers that are no tensors of the model; NULL: none */
} dt__hf_names;

extern const dt__hf_names dt__hf_phi3_names, dt__hf_gpt2_names, dt__hf_neox_names;

/* How a folder's tensors are cut. */
typedef struct dt__hf_cutting {
    const dt__hf_names *names; /* NULL: they have the family's names */
    int64_t queries, keys;     /* rows of q; of k, and of v */
    int64_t heads;             /* of parts by head */
} dt__hf_cutting;

/* Adds the tensors that e is, at most DT__HF_PARTS, to the folder's, or none if it is a buffer;
 * *taken: the table has it. FORMAT, NOMEM. */
dt_status dt__hf_cut(dt_file *folder, const dt_file_entry *e, const dt__hf_cutting *c, bool *taken);

/* The row of a parameter, which of its parts it is, and the class's name; NULL: it is as it is. */
const dt__hf_row *dt__hf_row_of(const dt__hf_names *names, const char *path, int *part,
                                char theirs[DT__SHOWN]);
/* The path of a part of the row, where `path` is that of part `of`. */
void dt__hf_part_name(const dt__hf_row *r, int part, const char *path, int of,
                      char text[DT__SHOWN]);
int dt__hf_row_parts(const dt__hf_row *r);

#endif
