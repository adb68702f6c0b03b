/* Grouped parameters in files. A parameter P of N experts stands there stacked, as P [N, ...], or
 * expert by expert, as P.0 ... P.N-1, and so does what belongs to it: P.codes or P.0.codes,
 * detent.optim.exp_avg.P or detent.optim.exp_avg.P.0. A model may have either, too: a grouped
 * parameter, or N tensors. */
#ifndef DT__IO_GROUPED_FILES_H
#define DT__IO_GROUPED_FILES_H

#include "io/kept.h"
#include "io/safetensors.h"

/* ---- names ----------------------------------------------------------------------------------- */

enum { DT__WHOLE = -1, DT__NO_EXPERT = -2 /* digits that are no expert's number */ };

/* What N parts of one name are when they stand in one tensor. */
enum {
    DT__AS_STACKED,  /* [N, ...] */
    DT__AS_JOINED,   /* [N * rows, ...] */
    DT__AS_REPEATED, /* each of them the same, once */
    DT__AS_LINES,    /* [N, columns], of one expert [columns] */
};

#define DT__OWN_PATH 96

/* The parts of a tensor's name: SLOT PATH .MEMBER SUFFIX. */
typedef struct dt__place {
    const char *slot, *path; /* "detent.optim.NAME.", or nothing; both of so many bytes */
    int slot_n, path_n;
    int64_t expert;
    const char *suffix; /* ".codes", ...; "" */
    int form;
    bool renamed;           /* the model calls it otherwise than the file */
    char own[DT__OWN_PATH]; /* its path then */
} dt__place;

/* How another program names a model's tensors. */
struct dt__naming {
    /* False: the name is the model's own. */
    bool (*read)(const char *name, dt__place *out);
    /* The name of a parameter, a buffer or, where `expert` is not DT__WHOLE, of an expert; false:
     * the model's own. */
    bool (*write)(const char *path, int64_t expert, char text[DT__SHOWN]);
};

/* The expert's number that n digits are; DT__NO_EXPERT where others would be written for it. */
int64_t dt__expert_number(const char *digits, int n);
void dt__place_of(const dt__naming *naming, const char *name, dt__place *out);
/* How a file names a parameter of a model, for messages. Returns text. */
const char *dt__name_in(const dt_file *file, const char *path, char text[DT__SHOWN]);

/* ---- the grouped parameters of a model ------------------------------------------------------ */

typedef struct dt__group {
    const char *path; /* lent, of path_n bytes */
    int path_n;
    int64_t n;
    const dt_tensor *x; /* the model's; NULL: not known */
    bool apart;         /* the model has not it but P.0 ... P.n-1 */
} dt__group;

typedef struct dt__groups {
    dt_ctx *ctx;
    dt__group *at; /* in the order of their paths */
    int64_t n, room;
    dt__kept *kept; /* paths that nobody else has */
} dt__groups;

dt_status dt__groups_of(dt_module *m, dt__groups *out);
/* The same without a model: further ones one by one, then all in order. */
dt_status dt__groups_add(dt__groups *groups, const dt__group *group);
void dt__groups_sort(dt__groups *groups);
void dt__groups_free(dt__groups *groups);
/* That of a place, whose form becomes that of its parts; NULL: none. */
const dt__group *dt__group_of(const dt__groups *groups, dt__place *place);

/* ---- a file as a model has it (fit.c) ------------------------------------------------------- */

typedef struct dt__fit {
    dt_file view; /* lent by the file, as is what it leaves as it was */
    dt__kept *kept;
    int64_t joined; /* tensors that stood expert by expert */
} dt__fit;

/* *out has the tensors of the file under the names and in the form of the model. To be freed also
 * after an error: FORMAT (both forms, experts that are missing, too many, of another form),
 * NOMEM. */
dt_status dt__fit_open(const dt_file *file, const dt__groups *groups, dt__fit *out);
void dt__fit_free(dt__fit *fit);

/* ---- writing -------------------------------------------------------------------------------- */

/* Adds a tensor to a writer, expert by expert where it belongs to one of the groups (NULL:
 * none). */
dt_status dt__experts_add(dt_writer *w, const dt__groups *groups, const dt_file_entry *e);

#endif
