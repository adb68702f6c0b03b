/* Internals of datasets: the fields that every kind has, the table of a kind's functions, and the
 * fields of each kind. The kinds are images (images.c, images_batch.c), arrays (arrays.c),
 * joined arrays (joined.c) and sequences (sequences.c). */
#ifndef DT__DATA_DATASET_H
#define DT__DATA_DATASET_H

#include "core/text/json.h"
#include "core/tensor.h"

#include <detent/experimental/data.h>

#define DT__MOST_CLASSES 256 /* of images: their labels are bytes */

/* Dtype and shape of x or of a target, without the batch dimension. */
typedef struct dt__side {
    dt_dtype dtype;
    int rank;
    int64_t dims[DT_MAX_RANK - 1];
} dt__side;

/* The positions of an epoch that form a batch. */
typedef struct dt__batch {
    const dt_dataset *d;
    const dt_loader_options *options;
    void *state; /* made by `begin` */
    int64_t epoch;
    int64_t first, n;     /* positions in the epoch */
    const int64_t *order; /* the example at each position; NULL: the position itself */
    void *x, *target;     /* contiguous */
} dt__batch;

static inline int64_t dt__batch_example(const dt__batch *b, int64_t i)
{
    return b->order == NULL ? b->first + i : b->order[b->first + i];
}

/* A kind of dataset. The loader does the rest: order of examples, positions, tensors. */
typedef struct dt__data_kind {
    const char *examples; /* the plural for messages: "images" */
    /* Number of examples in a shuffled epoch; NULL: as in an unshuffled one. */
    int64_t (*shuffled)(const dt_dataset *d);
    /* ARG if the kind does not support a loader's options. */
    dt_status (*check)(const dt_dataset *d, const dt_loader_options *o);
    void (*sides)(const dt_dataset *d, dt__side *x, dt__side *target);
    /* State of a loader; NULL: none. `end` frees what `begin` allocated, also after an error of
     * `begin`. */
    dt_status (*begin)(const dt_dataset *d, void **state);
    void (*end)(dt_ctx *ctx, void *state);
    void (*fill)(const dt__batch *b);
    void (*expect)(const dt__batch *b); /* prefetches a batch that is read next; NULL: none */
    /* Number of values in an example's target that count in the loss. */
    int64_t (*labels)(const dt__batch *b, int64_t example);
    /* Removes the last `count` examples from d; `last`, a copy of d, keeps only these. */
    void (*split)(dt_dataset *d, dt_dataset *last, int64_t count);
    void (*drop)(dt_dataset *d); /* frees the fields of the kind */
    /* the class of an example; NULL: targets are not labels */
    int (*label)(const dt_dataset *d, int64_t example);
} dt__data_kind;

struct dt_dataset {
    dt_ctx *ctx;
    const dt__data_kind *kind;
    int64_t count; /* examples, in order */
    dt_target target;
    int64_t classes;
    /* images: views of two storages, so that a split shares the bytes */
    int64_t channels, height, width;
    bool resized;  /* images of other sizes were resized */
    int64_t first; /* index of the first example in the storages, also of arrays and sequences */
    dt__storage *pixels, *targets;
    dt__storage *class_names; /* [classes] texts, each ended by NUL; NULL: none */
    dt_reals mean, deviation; /* empty: 0 and 1 */
    dt_reals thresholds;      /* decision thresholds of logits, as in dt_model_data; empty: none */
    /* quantile levels that a model predicts for each target; empty: it predicts the target */
    dt_reals quantiles;
    double noise;
    /* arrays: a part of the store, from example `first` on */
    struct dt__array_store *arrays;
    dt__storage *scaling; /* f64 [2, channels]: means and deviations; NULL: 0 and 1 */
    /* joined arrays: parts that all datasets split from it share, from example `first` on */
    struct dt__joined *joined;
    /* sequences of tokens */
    int64_t context;
    struct dt__token_store *store;
    int64_t begin, length;           /* running text: a range of token_store */
    dt__storage *pieces;             /* NULL: running text; else the examples, from `first` on */
    dt_tokenizer *tokenizer;         /* NULL: unknown */
    const char *prompt, *completion; /* formats of pieces, shared strings; NULL: none */
    int chat;                        /* form of chats (dt_chat_template); 0: none */
    const char *system;              /* of dt_chat, a shared string; NULL: none */
};

/* Creates a dataset from the fields, and takes ownership of them also after an error. */
dt_status dt__dataset_make(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

/* Sum of weight[label] over the examples of the loader's next `batches` batches, up to the end of
 * the epoch. Targets are classes. */
double dt__loader_weigh(dt_loader *l, int64_t batches, const float *weight);

/* dt_loader_next for shard k: examples ceil(k n / shards) to ceil((k + 1) n / shards) - 1 of the n
 * in the next batch. *x and *target are NULL if there are none. */
dt_status dt__loader_next_shard(dt_loader *l, int64_t shard, int64_t shards, dt_tensor **x,
                                dt_tensor **target);

/* From now on this process reads only every `batches`-th batch, as one of several ranks. */
void dt__loader_apart(dt_loader *l, int64_t batches);

/* The plural of examples for messages: "images", "rows". */
const char *dt__dataset_examples(const dt_dataset *d);
/* The index of the recording of which an example is a window, ascending; -1: examples are not
 * windows of recordings with one target each. */
int64_t dt__dataset_recording(const dt_dataset *d, int64_t example);
/* Whether some recording has several examples. */
bool dt__dataset_has_windows(const dt_dataset *d);
/* The number of examples in an epoch. */
int64_t dt__dataset_epoch(const dt_dataset *d, bool shuffled);

/* The two keys in block `epoch` of a seed's stream. */
typedef struct dt__epoch_keys {
    uint64_t first, second;
} dt__epoch_keys;

dt__epoch_keys dt__keys_of_epoch(uint64_t seed, dt__purpose purpose, int64_t epoch);

/* Whether a target is an i32: a class, or normal or anomalous. */
static inline bool dt__has_label(const dt_dataset *d)
{
    return d->target == DT_TARGET_CLASS || d->target == DT_TARGET_ANOMALY;
}

/* Uniform in -most ... most, from a random word, with a bias below 2^-32 of the range. */
int64_t dt__random_offset(uint32_t word, int64_t most);

/* Adds scale * z to n numbers. z is a sum of eight bytes with deviation 1; uses dt__noise_blocks(n)
 * blocks of the key from block `first` on. */
void dt__add_noise(uint64_t key, uint64_t first, int64_t n, float scale, float *x);
static inline int64_t dt__noise_blocks(int64_t n)
{
    return dt__round_up(dt__ceil_div(n, 2), DT__PHILOX_RUN);
}

/* ---- images ------------------------------------------------------------------------------- */

extern const dt__data_kind dt__data_images;

/* Creates a dataset of images. Takes over the caller's references of both storages, also after an
 * error. */
dt_status dt__images_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

/* Allocates storages for the images and targets that the fields describe; both or none. */
dt_status dt__images_allocate(dt_ctx *ctx, dt_dataset *fields);

/* Bytes of an image, and of a target. */
static inline int64_t dt__dataset_image_bytes(const dt_dataset *d)
{
    return d->channels * d->height * d->width;
}
static inline int64_t dt__dataset_target_bytes(const dt_dataset *d)
{
    return d->target == DT_TARGET_CLASS  ? 1
           : d->target == DT_TARGET_MASK ? d->height * d->width
                                         : dt__dataset_image_bytes(d);
}

/* Image and target i, unchecked. */
static inline const uint8_t *dt__dataset_image(const dt_dataset *d, int64_t i)
{
    return (const uint8_t *)d->pixels->data + (d->first + i) * dt__dataset_image_bytes(d);
}
static inline const uint8_t *dt__dataset_target(const dt_dataset *d, int64_t i)
{
    return (const uint8_t *)d->targets->data + (d->first + i) * dt__dataset_target_bytes(d);
}

/* Changes of an image, other than moves by whole pixels (images_augment.c). */
typedef struct dt__change {
    float turn;                       /* tangent of half the angle; 0: none */
    float gain, offset;               /* v becomes gain v + offset */
    int64_t top, left, height, width; /* the rectangle that is erased */
} dt__change;

/* ARG if the options do not fit. */
dt_status dt__images_check_changes(const dt_dataset *d, const dt_augment_options *a);
/* A number below n from 32 random bits. */
static inline int64_t dt__below(uint32_t word, int64_t n)
{
    return (int64_t)((word * (uint64_t)n) >> 32);
}
bool dt__images_change(const dt_augment_options *a); /* whether there are any changes */
/* The change of the image at position `place` of an epoch with this key. */
dt__change dt__change_of(const dt_dataset *d, const dt_augment_options *a, uint64_t key,
                         int64_t place);
/* Rotates a plane about its centre; the corners are filled with zeros. `smooth`: bilinear, else
 * nearest pixel. */
void dt__turn_plane(const dt_dataset *d, const uint8_t *from, float turn, bool smooth, uint8_t *to);
/* Changes a channel of x, which is standardized: (v - mean) / deviation. */
void dt__change_plane(const dt_dataset *d, const dt__change *c, float mean, float deviation,
                      float *x);

/* How a batch is mixed (images_mix.c): the weight of the first image of each pair, and the
 * rectangle that is exchanged; with height 0 the whole images are added. */
typedef struct dt__mixture {
    float share;
    int64_t top, left, height, width;
} dt__mixture;

dt_status dt__images_check_mixture(const dt_dataset *d, const dt_augment_options *a);
/* The mixture of batch `batch` of an epoch with this key. */
dt__mixture dt__mixture_of(const dt_dataset *d, const dt_augment_options *a, uint64_t key,
                           int64_t batch);
/* Mixes images i and n-1-i; `other` receives the labels in reverse order. */
void dt__images_mix(const dt__batch *b, const dt__mixture *m, int32_t *other);
static inline bool dt__images_are_mixed(const dt_augment_options *a)
{
    return a->mixup != 0 || a->cutmix != 0;
}

/* Functions of dt__data_kind (images_batch.c). */
dt_status dt__images_check(const dt_dataset *d, const dt_loader_options *o);
dt_status dt__images_begin(const dt_dataset *d, void **state);
void dt__images_end(dt_ctx *ctx, void *state);
void dt__images_fill(const dt__batch *b);

/* ---- sequences of tokens (sequences.c) ---------------------------------------------------- */

#define DT__NO_LABEL (-100)

extern const dt__data_kind dt__data_sequences;

/* Ids in memory or in a file, reference-counted. */
typedef struct dt__token_store {
    dt_ctx *ctx;
    int refs;
    dt_ids ids;
    dt_tokens *file;   /* NULL: in memory */
    dt__chars learned; /* of chats: one byte per id, 1: a target of training; empty: all are */
} dt__token_store;

/* An empty store with one reference. NULL: NOMEM. */
dt__token_store *dt__token_store_create(dt_ctx *ctx);
void dt__token_store_release(dt__token_store *s); /* NULL is allowed */
int64_t dt__token_store_count(const dt__token_store *s);

/* A sequence with beginning and end: tokens begin ... begin + n - 1 of the store. Those from index
 * `first` on are targets, in chats only the ones marked in `learned`. */
typedef struct dt__sequence {
    int64_t begin;
    int64_t n, first;
} dt__sequence;

/* Creates a dataset of tokens. Takes over the caller's references of store, pieces and tokenizer,
 * also after an error. The number of examples of running text follows from its length. */
dt_status dt__sequences_wrap(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out);

#endif
