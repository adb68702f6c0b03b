/* Inside the recipe engine: the tree of a parsed file, its memory, its errors.
 *
 * text -> (yaml.c) tree with a position in each node -> (override.c) the command line's changes ->
 * (fill.c) the structs, by the tables -> (check.c) what concerns several keys or the disk.
 * No step stops at an error: each adds a complaint, and the caller gets all of them at once. */
#ifndef DT__TRAIN_RECIPE_H
#define DT__TRAIN_RECIPE_H

#include "core/core.h"
#include "core/json.h"
#include "core/number.h"

#include <detent/train.h>

#define DT__RECIPE_BYTES ((size_t)1 << 20)
#define DT__RECIPE_DEPTH 64
#define DT__RECIPE_CHILDREN 256 /* of one map or list: more are surely a mistake */
#define DT__RECIPE_ERRORS 100   /* shown at most */

typedef enum dt__origin {
    DT__FROM_FILE,
    DT__FROM_COMMAND_LINE,
    DT__FROM_INIT, /* what model.init says of its model */
    DT__FROM_TABLE
} dt__origin;
typedef enum dt__node_kind { DT__SCALAR, DT__MAP, DT__SEQUENCE } dt__node_kind;

typedef struct dt__node {
    dt__node_kind kind;
    dt__origin origin;
    bool plain; /* a scalar without quotes */
    bool bad;   /* a complaint about it exists: no further ones */
    int line, column;
    const char *text; /* of a scalar; NUL behind it */
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
    struct dt__chunk *chunks; /* every node and string lives in here */
    bool out_of_memory;       /* sticky: an allocation failed, the recipe is not usable */
    const char *file;
    const char *parsing; /* the override whose value is being parsed, for its errors */
    bool leave_files;
    bool only_quantizes; /* it may lack what training needs */
    bool needs_data;     /* even so */
    dt__node *root;
    dt__complaint *complaints; /* in the order of the file */
    int n_complaints;
    bool init_unread;             /* model.init is not there, or wrong */
    const dt_family *init_family; /* of a folder that is model.init; NULL: it is none */
    const void *init_options;
    dt_recipe_options options;
};

/* ---- memory and errors (recipe.c) ---- */

/* Zeroed memory that lives as long as the recipe; NULL sets out_of_memory. */
void *dt__recipe_alloc(dt_recipe *r, size_t bytes);
char *dt__recipe_copy(dt_recipe *r, const char *text, size_t bytes);
/* "" where memory is out, so that messages can be built without a check. */
const char *dt__recipe_format(dt_recipe *r, const char *format, ...) DT_PRINTF(2, 3);
/* `prefix.name`, or `name` where the prefix is empty. */
const char *dt__recipe_join(dt_recipe *r, const char *prefix, const char *name);
/* A node's text fit for a message: short, and without control characters. */
const char *dt__recipe_quote(dt_recipe *r, const dt__node *node);
const char *dt__recipe_quote_text(dt_recipe *r, const char *text, size_t bytes);

/* A complaint at a node, which is marked bad. */
void dt__complain(dt_recipe *r, dt__node *at, const char *format, ...) DT_PRINTF(3, 4);
/* A line of the same form for the context's log: a warning, and no error. */
void dt__remark(dt_recipe *r, const dt__node *at, const char *format, ...) DT_PRINTF(3, 4);

/* `status`, but where it is `kind` an error of the recipe, with the same words: at `key`, or at the
 * key below it that they begin with. */
dt_status dt__recipe_blame(dt_recipe *r, const char *key, dt_status kind, dt_status status);

/* OK, CONFIG with the first error as the context's, or NOMEM. */
dt_status dt__recipe_verdict(dt_recipe *r);

/* The keys of `qat` (keys_recipe.c); they fill two structs of a dt_recipe_options. */
extern const dt_key dt__qat_block_keys[];

/* ---- the tree (yaml.c) ---- */

/* Parses one document. NULL after an error that leaves no tree, or out of memory. */
dt__node *dt__yaml_parse(dt_recipe *r, const char *text, size_t bytes, dt__origin origin);
dt__node *dt__node_create(dt_recipe *r, dt__node_kind kind, dt__origin origin);
void dt__node_append(dt__node *parent, dt__node *child);
/* The value under a key, the i-th child; NULL where there is none. */
dt__node *dt__node_child(const dt__node *map, const char *name, size_t bytes);
dt__node *dt__node_item(const dt__node *sequence, int64_t i);
/* The node at a dotted path, NULL where the recipe does not give it. `above`, if not NULL, gets the
 * deepest node on the way that it does give. */
dt__node *dt__node_at(const dt_recipe *r, const char *path, dt__node **above);

/* The code point at `text` and its length; -1, and 1, where it is not UTF-8 (yaml.c). */
int32_t dt__utf8_decode(const char *text, size_t left, size_t *bytes);

/* ---- the steps ---- */

/* Old names of keys and choices become new ones, with warnings; where both are given, that is an
 * error (renamed.c). */
void dt__recipe_rename(dt_recipe *r);
/* A path of the command line with the new names of its keys, and a warning if any had an old
 * one. */
const char *dt__recipe_path_now(dt_recipe *r, const char *path);
void dt__recipe_override(dt_recipe *r, const char *text);
void dt__recipe_take_init(dt_recipe *r); /* init.c */
void dt__recipe_fill(dt_recipe *r);
void dt__recipe_check(dt_recipe *r);
/* False for a key that the chosen optimizer, schedule, data format or rounder ignores (check.c). */
bool dt__recipe_applies(const dt_recipe *r, const char *path);

/* ---- between checks ---- */

/* The key at `path`, if it was given and nothing was wrong with it so far. */
dt__node *dt__given(const dt_recipe *r, const char *path);
/* Whether it was refused; whether one of the keys below it was. */
bool dt__is_bad(const dt_recipe *r, const char *path);
bool dt__has_bad(const dt_recipe *r, const char *path);
/* Of `qat`, `convert` and `quantize` (check_quant.c). */
void dt__recipe_check_quant(dt_recipe *r);
void dt__recipe_check_init(dt_recipe *r);   /* against the options of model.init */
void dt__recipe_check_ranges(dt_recipe *r); /* that nothing reads (check_ranges.c) */
bool dt__rounding_applies(const dt_recipe *r, const char *path);

/* ---- tables of others ---- */

extern const dt_key dt__calibration_keys[];

/* ---- words ---- */

/* The key that `name` was perhaps meant to be among those of `keys` and their relatives elsewhere;
 * `here` is the path of the map. NULL: no idea. */
const char *dt__suggest_key(dt_recipe *r, const char *here, const dt_key *const *keys, int n_keys,
                            const char *name);

/* ---- families, which hang below `model` ---- */

const dt_family *dt__family_named(const char *name);

#endif
