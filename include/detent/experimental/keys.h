/* experimental/keys.h: tables that describe option structs: per key its type, range, default and
 * meaning. The recipe's schema, errors and documentation, and the settings of test cases, come from
 * them. */
#ifndef DETENT_EXPERIMENTAL_KEYS_H
#define DETENT_EXPERIMENTAL_KEYS_H

#include <detent/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `most` of a number without an upper bound; -DT_NO_LIMIT: `least` of one without a lower bound */
#define DT_NO_LIMIT 1e300

/* Named shapes, without the batch dimension. A single shape may have no name. */
#define DT_MAX_SHAPES 8
typedef struct dt_shapes {
    int n;
    const char *name[DT_MAX_SHAPES]; /* lent by the code that filled the options; NULL: no name */
    dt_ints shape[DT_MAX_SHAPES];
} dt_shapes;

/* A kind of the maps in a list. The first key of a map is the name of its kind. */
typedef struct dt_item_kind {
    const char *name;          /* also the name of the first key of `keys` */
    const char *text;          /* one sentence of documentation, without a full stop */
    const struct dt_key *keys; /* keys of its options */
    size_t size;               /* bytes of its options */
} dt_item_kind;

typedef struct dt_list_item {
    const dt_item_kind *kind;
    void *options; /* the struct that kind->keys describe; lent by the code that filled the list */
} dt_list_item;

typedef struct dt_item_list {
    int64_t n;
    dt_list_item *v; /* lent, as `options` */
} dt_item_list;

/* Each type's comment is the C type of the field at `offset`. */
typedef enum dt_key_type {
    DT_KEY_BOOL,   /* bool */
    DT_KEY_INT,    /* int64_t */
    DT_KEY_REAL,   /* double */
    DT_KEY_STRING, /* const char * */
    DT_KEY_PATH,   /* const char *: a file or folder that the user names */
    DT_KEY_CHOICE, /* int: index into `choices` */
    DT_KEY_INTS,   /* dt_ints */
    /* dt_reals: a list, or one number for a list of one; if there are `choices`, choice i sets n =
     * -1 - i */
    DT_KEY_REALS,
    DT_KEY_STRINGS, /* dt_strings: a list; in recipes also one string for a list of one */
    DT_KEY_MAP,     /* the struct that `keys` describes, in place */
    DT_KEY_PAIR,    /* int64_t[2]: height and width; in recipes a list, or one number for both */
    DT_KEY_SHAPES,  /* dt_shapes: a list of integers, or a map of such lists */
    DT_KEY_ITEMS,   /* dt_item_list: maps, each of one of `kinds`; a name alone is an empty map */
    DT_KEY_LIST     /* an array of at most `most` structs; the int64_t at `count` is their number */
} dt_key_type;

typedef struct dt_key {
    const char *name; /* NULL: the end of the table */
    dt_key_type type;
    size_t offset; /* of the field in the options struct */
    /* closed range of a number, or of each number of a list; both 0: no bounds */
    double least, most;
    const char *fallback;       /* the default as recipe text; NULL: zero or absent; "!": the key is
                           * required */
    const char *const *choices; /* CHOICE: ended by NULL */
    const struct dt_key *keys;  /* MAP or LIST */
    const dt_item_kind *(*kinds)(int i); /* ITEMS: the i-th kind; NULL past the last */
    bool own_kinds;                      /* ITEMS: also the kinds of dt_layer_register */
    const char *text;                    /* one sentence of documentation, without a full stop */
    size_t size;                         /* LIST: bytes of one element */
    size_t count;                        /* LIST: offset of the number of elements */
    ptrdiff_t given; /* offset of a bool that is true if the key was given; 0: none */
    int fewest;      /* the minimum length of a list */
    int multiple;    /* an INT must be a multiple of this; 0: any */
    /* The key's former name, and pairs of former and current names of choices, ended by NULL.
     * Recipes may use former names with a warning, files without. NULL: none. */
    const char *was;
    const char *const *choices_were;
    bool resumable; /* in recipes: `--resume` may change this key and all keys below it */
    /* In recipes: an alternative form of the key in the row above, which has the same name: a list
     * or map if that is neither. Each form has its own field; the form of the value selects it. */
    bool other_form;
} dt_key;

#ifdef __cplusplus
}
#endif
#endif
