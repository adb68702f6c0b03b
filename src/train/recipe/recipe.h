/* The recipe engine, internal to src/train: the tree of a parsed file, its memory, its errors.
 *
 *     text -> tree with a position in each node        (yaml.c)
 *          -> changed by the command line              (override.c)
 *          -> structs, filled by the tables of keys    (fill.c)
 *          -> checks of several keys or of the disk    (check.c)
 * No step stops at an error: each adds errors to one list, and the caller gets all of them. */
#ifndef DT__TRAIN_RECIPE_H
#define DT__TRAIN_RECIPE_H

#include "core/core.h"
#include "core/text/json.h"
#include "core/text/number.h"

#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

#define DT__RECIPE_BYTES ((size_t)1 << 20)
#define DT__RECIPE_DEPTH 64
#define DT__RECIPE_CHILDREN 4096 /* limit of one map or list */
#define DT__RECIPE_ERRORS 100    /* most that are kept */

typedef enum dt__origin {
    DT__FROM_FILE,
    DT__FROM_SWEEP, /* from the description of a sweep */
    DT__FROM_COMMAND_LINE,
    DT__FROM_INIT,   /* from the file of model.init */
    DT__FROM_TARGET, /* from qat.target */
    DT__FROM_BEST,   /* from qat.recipe */
    DT__FROM_TABLE
} dt__origin;
typedef enum dt__node_kind { DT__SCALAR, DT__MAP, DT__SEQUENCE } dt__node_kind;

typedef struct dt__node {
    dt__node_kind kind;
    dt__origin origin;
    bool plain; /* a scalar without quotes */
    bool bad;   /* has an error already: report no further ones */
    int line, column;
    const char *text; /* of a scalar; ends with NUL */
    size_t bytes;
    int count; /* children */
    struct dt__node *key, *first, *next;
} dt__node;

typedef struct dt__complaint {
    dt__origin origin;
    int line, column;
    const char *text; /* the whole line */
    struct dt__complaint *next;
} dt__complaint;

struct dt_recipe {
    dt_ctx *ctx;
    struct dt__chunk *chunks; /* memory of all nodes and strings */
    bool out_of_memory;       /* sticky: an allocation failed, the recipe is not usable */
    const char *file;
    const char *what;         /* "recipe": what the text is, for messages */
    const char *sweep_file;   /* the sweep's file, for nodes of DT__FROM_SWEEP */
    const char *parsing;      /* the override whose value is being parsed, for its errors */
    bool leave_files, saved;  /* as dt_recipe_source */
    bool told;                /* as in dt_recipe_source */
    const char *const *reads; /* as dt_recipe_source */
    const char *file_format;  /* data.format of the file, before the command line; NULL: none */
    bool only_quantizes;      /* blocks for training are not required */
    bool needs_data;          /* but `data` is required */
    bool model_lacks_key;     /* a required key of `model` is missing */
    dt__node *root;
    dt__complaint *complaints; /* in the order of the file */
    int n_complaints;
    bool init_unread;             /* model.init is missing or invalid */
    dt_model_info init_info;      /* of the file of model.init; without family: none */
    const dt_family *init_family; /* if model.init is a folder; else NULL */
    const void *init_options;
    dt_recipe_options options;
};

/* A key of a sweep and a value for it, lent. */
typedef struct dt__graft {
    const char *path;
    const dt__node *key; /* its line and column are given in errors of the path */
    const dt__node *value;
} dt__graft;

/* Values that replace those of a recipe and of the command line. */
typedef struct dt__grafts {
    const char *file; /* the sweep's file */
    const dt__graft *graft;
    int n;
} dt__grafts;

/* ---- memory and errors (recipe.c) ---- */

/* dt_recipe_read with values of a sweep; their errors have the sweep file's line and column. */
dt_status dt__recipe_read_grafted(dt_ctx *ctx, const dt_recipe_source *source,
                                  const dt__grafts *grafts, dt_recipe **out);
/* An empty recipe for any text that tables of keys describe; `what`: its name in messages. NULL:
 * NOMEM. */
dt_recipe *dt__recipe_empty(dt_ctx *ctx, const char *file, const char *what);
/* Parses r->file into r->root. Errors: IO, NOMEM; others are in the recipe's list. */
dt_status dt__recipe_parse_file(dt_recipe *r);

/* Zeroed memory that lives as long as the recipe; NULL sets out_of_memory. */
void *dt__recipe_alloc(dt_recipe *r, size_t bytes);
char *dt__recipe_copy(dt_recipe *r, const char *text, size_t bytes);
/* Returns "" if memory is out, so that messages can be built without a check. */
const char *dt__recipe_format(dt_recipe *r, const char *format, ...) DT_PRINTF(2, 3);
/* The value of a key of options as JSON, in memory of the recipe; "": not set. */
const char *dt__recipe_value(dt_recipe *r, const dt_key *key, const void *options);
/* `prefix.name`, or `name` where the prefix is empty. */
const char *dt__recipe_join(dt_recipe *r, const char *prefix, const char *name);
/* A node's text for a message: shortened, without control characters. */
const char *dt__recipe_quote(dt_recipe *r, const dt__node *node);
const char *dt__recipe_quote_text(dt_recipe *r, const char *text, size_t bytes);

/* Adds an error at a node and marks it bad. */
void dt__complain(dt_recipe *r, dt__node *at, const char *format, ...) DT_PRINTF(3, 4);
/* Writes a warning of the same form to the context's log. */
void dt__remark(dt_recipe *r, const dt__node *at, const char *format, ...) DT_PRINTF(3, 4);

/* Returns `status`. If it equals `kind`, the context's error becomes an error of the recipe: at
 * `key`, or at the key below it with which the message begins. */
dt_status dt__recipe_blame(dt_recipe *r, const char *key, dt_status kind, dt_status status);

/* OK, or CONFIG with the recipe's first error as the context's, or NOMEM. */
dt_status dt__recipe_verdict(dt_recipe *r);

/* The keys of `qat` (keys_recipe.c), which fill two structs of dt_recipe_options. */
extern const dt_key dt__qat_block_keys[];

/* ---- the tree (yaml.c) ---- */

/* Parses one document. NULL after an error that leaves no tree, or out of memory. */
dt__node *dt__yaml_parse(dt_recipe *r, const char *text, size_t bytes, dt__origin origin);
dt__node *dt__node_create(dt_recipe *r, dt__node_kind kind, dt__origin origin);
void dt__node_append(dt__node *parent, dt__node *child);
/* The value of a key; NULL if there is none. */
dt__node *dt__node_child(const dt__node *map, const char *name, size_t bytes);
dt__node *dt__node_item(const dt__node *sequence, int64_t i);
/* The node at a dotted path, NULL if the recipe does not give it. `above`, if not NULL, gets the
 * deepest node of the path that is given. */
dt__node *dt__node_at(const dt_recipe *r, const char *path, dt__node **above);

/* The code point at `text` and its length in bytes; -1 and length 1 if it is not UTF-8. */
int32_t dt__utf8_decode(const char *text, size_t left, size_t *bytes);

/* ---- the steps ---- */

/* Replaces old names of keys and choices by the new ones, with warnings. An old and a new name
 * together are an error (renamed.c). */
void dt__recipe_rename(dt_recipe *r);
/* Replaces old names in a path of the command line, with a warning. */
const char *dt__recipe_path_now(dt_recipe *r, const char *path);
void dt__recipe_override(dt_recipe *r, const char *text);
/* Loads the plugins in run.plugins, and lists all plugins of the context there (plugins.c).
 * NOMEM. */
dt_status dt__recipe_take_plugins(dt_recipe *r);
/* Sets a sweep's value at its path (override.c). */
void dt__recipe_graft(dt_recipe *r, const dt__graft *graft);
dt_status dt__recipe_take_init(dt_recipe *r); /* init.c */
void dt__recipe_take_target(dt_recipe *r);    /* recipe_target.c */
extern const char *const dt__target_names[];
void dt__recipe_take_best(dt_recipe *r); /* recipe_best.c */
/* The keys that qat.recipe set, "KEY: VALUE, KEY: VALUE"; "": none. Lives as long as r. */
const char *dt__recipe_best(dt_recipe *r);
extern const char *const dt__best_names[];
/* Whether updates in float precede QAT. */
static inline bool dt__starts_in_float(const dt_recipe_options *o)
{
    return o->qat_schedule.start_step > 0 || o->qat_schedule.start_share > 0;
}
void dt__recipe_fill(dt_recipe *r);
/* Fills `options` from the root of the tree by any table. */
void dt__recipe_fill_table(dt_recipe *r, const dt_key *keys, void *options);
void dt__recipe_check(dt_recipe *r);
/* Removes keys of the file that the command does not read (read_keys.c). */
void dt__recipe_leave_out(dt_recipe *r);
/* Whether `path` is `key` or lies in it. */
bool dt__path_lies_in(const char *path, const char *key);
bool dt__recipe_reads(const dt_recipe *r, const char *path);
/* For row i of the table of keys that only some data formats read: "" if `format` reads the key,
 * else the key; NULL: no such row (check_limited.c). */
const char *dt__recipe_limited_by_format(int i, int format);
/* The row of a table, among the forms of one key, that reads a node; the first if none does
 * (fill.c). */
const dt_key *dt__form_of(const dt_key *key, const dt__node *node);
/* False for a key that the chosen optimizer, schedule, data format or rounder ignores
 * (check_limited.c). */
bool dt__recipe_applies(const dt_recipe *r, const char *path);

/* ---- data ---- */

/* dt_recipe_open_data with options of the recipe, which are adapted (recipe.c). */
dt_status dt__recipe_open_options(dt_recipe *r, dt_data_options *o, dt_dataset **train,
                                  dt_dataset **validation, dt_dataset **test);
/* Warns of a part of the data ("validation") that lacks classes, or whose targets are constant; d
 * may be NULL (data_classes.c). NOMEM. */
dt_status dt__say_targets(const char *part, const dt_dataset *d);

/* Warns of training data that look like images [height, width, channels]. */
void dt__say_layout(const dt_dataset *d);

/* ---- between checks ---- */

/* The key at `path`, if it was given and nothing was wrong with it so far. */
dt__node *dt__given(const dt_recipe *r, const char *path);
/* Whether the key, or one below it, has an error. */
bool dt__is_bad(const dt_recipe *r, const char *path);
bool dt__has_bad(const dt_recipe *r, const char *path);
void dt__recipe_check_limited(dt_recipe *r); /* keys that only some choices read */
void dt__recipe_check_train(dt_recipe *r);
void dt__recipe_check_data(dt_recipe *r);  /* and files that must exist */
void dt__recipe_remark_idle(dt_recipe *r); /* warns of keys without effect beside another key */
bool dt__recipe_is_idle(const dt_recipe *r, const char *path);
/* False if `keys` has a key `norm`, and its value in `base` does not use `key`. */
bool dt__norm_reads(const dt_key *keys, const char *base, const char *key);
/* Whether a loss (by name; NULL: the task's) reads this key; true for keys that are not settings of
 * losses. */
bool dt__loss_reads(const char *loss, const char *key);
/* Checks `qat`, `convert` and `quantize` (check_quant.c). */
void dt__recipe_check_quant(dt_recipe *r);
void dt__recipe_check_pack(dt_recipe *r);       /* model.pack (check_pack.c) */
bool dt__packs(const dt_model_options *m);      /* model.pack is given */
void dt__recipe_check_init(dt_recipe *r);       /* against the options of model.init */
void dt__recipe_check_columns(dt_recipe *r);    /* keys of tables and of other files */
bool dt__recipe_has_tables(const dt_recipe *r); /* data.train names files .csv */
void dt__recipe_check_ranges(dt_recipe *r);     /* keys of ranges without effect (check_ranges.c) */
bool dt__rounding_applies(const dt_recipe *r, const char *path);

/* ---- tables of others ---- */

extern const dt_key dt__calibration_keys[];

/* ---- words ---- */

/* The key nearest to a misspelt `name`, among `keys` and then the keys of other maps; `here` is the
 * path of the map. NULL: none is near. */
const char *dt__suggest_key(dt_recipe *r, const char *here, const dt_key *const *keys, int n_keys,
                            const char *name);

#endif
