/* Grouped parameters in files. A file stores a parameter P of N experts either stacked, as P [N,
 * ...], or per expert, as P.0 ... P.N-1. Tensors that belong to P have the same form: P.codes or
 * P.0.codes, detent.optim.exp_avg.P or detent.optim.exp_avg.P.0. A model, too, may have one grouped
 * parameter or N parameters. */
#ifndef DT__IO_GROUPED_FILES_H
#define DT__IO_GROUPED_FILES_H

#include "io/safetensors/safetensors.h"

/* ---- names ----------------------------------------------------------------------------------- */

enum { DT__WHOLE = -1, DT__NO_EXPERT = -2 /* digits that are not an expert's number */ };

/* How the tensors of N experts are combined into one. */
enum {
    DT__AS_STACKED,  /* [N, ...] */
    DT__AS_JOINED,   /* [N * rows, ...] */
    DT__AS_REPEATED, /* equal for all experts, stored once */
    DT__AS_LINES,    /* [N, columns], from [columns] of each expert */
};

#define DT__OWN_PATH 96

/* The parts of a tensor's name: SLOT PATH .EXPERT SUFFIX. */
typedef struct dt__place {
    const char *slot, *path; /* slot: "detent.optim.NAME.", or empty. Neither ends with NUL */
    int slot_n, path_n;
    int64_t expert;
    const char *suffix; /* ".codes", ...; "" */
    int form;
    bool renamed;           /* the model has another name for this tensor than the file */
    char own[DT__OWN_PATH]; /* the path in the model, if renamed */
} dt__place;

/* How another program names a model's tensors. */
struct dt__naming {
    /* Translates a name of the file to the model's; false: the names are the same. */
    bool (*read)(const char *name, dt__place *out);
    /* Translates the name of a parameter, a buffer or, unless `expert` is DT__WHOLE, of an expert
     * to the file's; false: the names are the same. */
    bool (*write)(const char *path, int64_t expert, char text[DT__SHOWN]);
};

/* The number of an expert, from n digits; DT__NO_EXPERT if they are not its canonical form. */
int64_t dt__expert_number(const char *digits, int n);
void dt__place_of(const dt__naming *naming, const char *name, dt__place *out);
/* Writes the file's name of a parameter to `text`, for messages, and returns text. */
const char *dt__name_in(const dt_file *file, const char *path, char text[DT__SHOWN]);

/* ---- the grouped parameters of a model ------------------------------------------------------ */

typedef struct dt__group {
    const char *path; /* lent, of path_n bytes */
    int path_n;
    int64_t n;
    const dt_tensor *x; /* the grouped parameter of the model; NULL: unknown */
    bool apart;         /* the model has P.0 ... P.n-1 instead */
} dt__group;

typedef struct dt__groups {
    dt_ctx *ctx;
    dt__group *at; /* sorted by path */
    int64_t n, room;
    void *arena; /* memory of generated paths */
} dt__groups;

dt_status dt__groups_of(dt_module *m, dt__groups *out);
/* For groups without a model: they are added one by one, then sorted. */
dt_status dt__groups_add(dt__groups *groups, const dt__group *group);
void dt__groups_sort(dt__groups *groups);
void dt__groups_free(dt__groups *groups);
/* The group to which a name belongs (NULL: none); sets place->form, how its tensors are
 * combined. */
const dt__group *dt__group_of(const dt__groups *groups, dt__place *place);

/* ---- a file as a model has it (fit.c) ------------------------------------------------------- */

typedef struct dt__fit {
    dt_file view; /* a view whose unchanged entries are lent by the file */
    void *arena;
    int64_t joined; /* number of tensors that were stacked from experts */
} dt__fit;

/* *out: the tensors of the file in the names and forms of the model. The caller frees it, also
 * after an error: FORMAT (a parameter both stacked and per expert; experts that are missing, too
 * many, or of different shapes), NOMEM. */
dt_status dt__fit_open(const dt_file *file, const dt__groups *groups, dt__fit *out);
void dt__fit_free(dt__fit *fit);

/* ---- writing -------------------------------------------------------------------------------- */

/* Adds a tensor to a writer, split into experts if it belongs to one of the groups (NULL: none). */
dt_status dt__experts_add(dt_writer *w, const dt__groups *groups, const dt_file_entry *e);

#endif
