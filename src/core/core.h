/* Declarations for every layer: context, memory, checked sizes, errors, random streams, threads. */
#ifndef DT__CORE_CORE_H
#define DT__CORE_CORE_H

#include "core/estimate.h"

#include <detent/experimental/detent.h>
#include <detent/experimental/keys.h>

#include <stdarg.h>
#include <stdatomic.h>

#define DT__S(n) ((n) == 1 ? "" : "s") /* the plural ending of a noun in a message */
#define DT__COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define DT__TRY(call)                                                                              \
    do {                                                                                           \
        const dt_status try_status_ = (call);                                                      \
        if (try_status_ != DT_OK) return try_status_;                                              \
    } while (0)

/* The first lines of a public function: a pointer that must not be NULL is ARG, with a message if
 * `ctx`, taken from the other arguments, is not NULL. */
#define DT__NEED(ctx, pointer)                                                                     \
    do {                                                                                           \
        if ((pointer) == NULL) return dt__is_null(ctx, __func__, #pointer);                        \
    } while (0)

/* The same for several, in their order; `ctx` is read when `first` is not NULL. */
#define DT__NEED2(ctx, first, second)                                                              \
    do {                                                                                           \
        DT__NEED(NULL, first);                                                                     \
        DT__NEED(ctx, second);                                                                     \
    } while (0)
#define DT__NEED3(ctx, first, second, third)                                                       \
    do {                                                                                           \
        DT__NEED2(ctx, first, second);                                                             \
        DT__NEED(ctx, third);                                                                      \
    } while (0)
#define DT__NEED4(ctx, first, second, third, fourth)                                               \
    do {                                                                                           \
        DT__NEED3(ctx, first, second, third);                                                      \
        DT__NEED(ctx, fourth);                                                                     \
    } while (0)

/* The same in an op: the error goes to the tape, unless the tape already has one. */
#define DT__NEED_OP(tape, pointer)                                                                 \
    do {                                                                                           \
        if ((pointer) == NULL) {                                                                   \
            dt_tape_fail(tape, DT_ERR_ARG, "%s: %s is NULL", __func__, #pointer);                  \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)
dt_status dt__is_null(dt_ctx *ctx, const char *function, const char *argument);

/* ---- memory: every allocation of the library goes through the context's block pool ---------- */

#define DT__ALIGNMENT 64
#define DT__CLASSES 768

typedef struct dt__block {
    size_t bytes; /* of the whole block, with its header */
    int klass;
    struct dt__block *next; /* in a free list */
} dt__block;

typedef struct dt__pool {
    dt__block *free_list[DT__CLASSES];
    dt_memory count;
    size_t limit;    /* a new block fails if it would raise count.used above this; 0: no limit */
    bool limited;    /* a block failed because of the limit */
    size_t promised; /* bytes of promised storages since the limit was set */
} dt__pool;

/* A block of at least `bytes` bytes, aligned to 64, uninitialized; NULL sets NOMEM. Zero bytes give
 * a valid pointer. */
void *dt__alloc(dt_ctx *ctx, uint64_t bytes);
void *dt__alloc_zero(dt_ctx *ctx, uint64_t bytes);
/* count * size bytes; an overflow is NOMEM. */
void *dt__alloc_array(dt_ctx *ctx, int64_t count, size_t size);
/* Returns a block to the pool. NULL is allowed. */
void dt__release(dt_ctx *ctx, void *pointer);
/* dt__release for several blocks, in their order. */
#define DT__RELEASE(ctx, ...)                                                                      \
    dt__release_all(ctx, DT__COUNT_OF(((void *[]){ __VA_ARGS__ })), (void *[]){ __VA_ARGS__ })
void dt__release_all(dt_ctx *ctx, int n, void *const *pointers);
/* Copies to a block of new_bytes and releases the old one; after NULL the old one is unchanged. */
void *dt__grow(dt_ctx *ctx, void *old, size_t old_bytes, size_t new_bytes);
/* Grows `array` (room for `room` elements, n used) if it is full, so that one more fits. */
#define DT__RESERVE(ctx, array, n, room) dt__reserve(ctx, &(array), n, &(room), sizeof *(array))
dt_status dt__reserve(dt_ctx *ctx, void *array, int64_t n, int64_t *room, size_t size);
char *dt__copy_string(dt_ctx *ctx, const char *text);
char *dt__format_string(dt_ctx *ctx, const char *format, ...) DT_PRINTF(2, 3);
void dt__pool_trim(dt_ctx *ctx);
/* Sets a limit until pool.limit is 0 again: new blocks fail if they would raise the bytes in use by
 * more than `size` * growth + slack. */
void dt__pool_limit(dt_ctx *ctx, size_t size, uint64_t growth, size_t slack);
/* Raises that limit, if there is one, by `size` * growth. */
void dt__pool_widen(dt_ctx *ctx, size_t size, uint64_t growth);

/* A string with a reference count, immutable, created with one reference; it retains the context.
 * NULL sets NOMEM. dt__text_retain returns its argument; retain and release allow NULL. */
const char *dt__text(dt_ctx *ctx, const char *format, ...) DT_PRINTF(2, 3);
const char *dt__text_retain(const char *text);
void dt__text_release(const char *text);

/* ---- checked arithmetic ------------------------------------------------------------------- */

/* *out = a * b (a + b); false if the result exceeds size_t, which may have 32 bits. */
bool dt__mul_size(uint64_t a, uint64_t b, size_t *out);
bool dt__add_size(uint64_t a, uint64_t b, size_t *out);
/* n bytes, or a quarter of the address space if that is less: for limits. */
#define DT__AT_MOST(n) ((n) < SIZE_MAX / 4 ? (size_t)(n) : SIZE_MAX / 4)
/* Product of extents; false on a negative extent or overflow of int64. */
bool dt__product(int rank, const int64_t *dims, int64_t *out);

static inline int64_t dt__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t dt__max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t dt__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t dt__round_up(int64_t a, int64_t b) { return dt__ceil_div(a, b) * b; }
/* Bytes of a part of scratch memory, rounded up so that the next part is aligned. */
static inline size_t dt__scratch_part(size_t bytes)
{
    return (size_t)dt__round_up((int64_t)bytes, DT__ALIGNMENT);
}
/* `count` elements behind the `used` bytes of scratch memory; NULL while sizes are only counted. */
static inline void *dt__scratch_take(void *scratch, size_t *used, int64_t count, size_t element)
{
    const size_t at = *used;
    *used += dt__scratch_part((size_t)count * element);
    return scratch == NULL ? NULL : (char *)scratch + at;
}
/* a b of nonnegative numbers; INT64_MAX if the product is too large. */
static inline int64_t dt__times_i64(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}
/* A bound of a range as in Python: negative numbers count from the end; then clamped to [0,
 * extent]. */
static inline int64_t dt__bound_in(int64_t index, int64_t extent)
{
    if (index < 0) index += extent;
    return dt__max_i64(0, dt__min_i64(index, extent));
}

/* ---- random streams: Philox4x32-10, keyed by seed and purpose, counted --------------------- */

typedef enum dt__purpose {
    DT__FOR_INIT = 0, /* initial weights */
    DT__FOR_USER,     /* dt_fill_uniform, dt_fill_normal */
    DT__FOR_DROPOUT,
    DT__FOR_SHUFFLE,
    DT__FOR_AUGMENT,
    DT__FOR_DIGITS,
    DT__FOR_OBSERVERS,
    DT__PURPOSES,
    /* not a stream of a context: samplers have their own counter */
    DT__FOR_SAMPLING = DT__PURPOSES,
    DT__FOR_SWEEPS,  /* likewise */
    DT__FOR_ROTATION /* likewise */
} dt__purpose;

/* A stream's state is two integers, which checkpoints save. */
typedef struct dt__stream {
    uint64_t key;
    uint64_t next; /* the counter of the next block of four words */
} dt__stream;

dt__stream dt__stream_of(uint64_t seed, dt__purpose purpose);
/* Block `counter` of the stream: a pure function of key and counter. */
void dt__philox(uint64_t key, uint64_t counter, uint32_t out[4]);
/* Blocks first, first + 1, ...: word w of block first + i goes to out[w][i]. */
#define DT__PHILOX_RUN 16
void dt__philox_run(uint64_t key, uint64_t first, uint32_t out[4][DT__PHILOX_RUN]);
/* Reserves `blocks` blocks; returns the counter of the first. */
uint64_t dt__stream_take(dt__stream *s, uint64_t blocks);
/* One number from the next block: a uniform integer in [0, n), unbiased; a uniform double in [0,
 * 1). */
uint64_t dt__random_below(dt__stream *s, uint64_t n);
double dt__random_unit(dt__stream *s);
/* A random word as a float or double in [0, 1). */
static inline float dt__unit_f32(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
static inline double dt__unit_f64(uint32_t high, uint32_t low)
{
    return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

/* ---- context ------------------------------------------------------------------------------ */

#define DT__MESSAGE_SIZE 1024

typedef struct dt__team dt__team; /* core/threads.h */

/* What a program has registered: families, losses, metrics, sources of data, kinds of layers,
 * optimizers, quantization schemes; and what the library owns: named metrics of several outputs,
 * and loaded plugins. Each struct begins with its name. */
typedef enum dt__registered {
    DT__FAMILIES,
    DT__LOSSES,
    DT__METRICS,
    DT__SOURCES,
    DT__LAYERS,
    DT__OPTIMIZERS,
    DT__SCHEMES_OWN,
    DT__NAMED_METRICS,
    DT__PLUGINS, /* dt_plugin_info, owned */
    DT__REGISTRIES
} dt__registered;

/* Ends messages about a name in a recipe that nothing has. */
#define DT__PLUGIN_ADDS "; a plugin can add one (run.plugins)"

typedef struct dt__registry {
    const void **item;
    int64_t n, room;
} dt__registry;

#define DT__SAID 64 /* lines that dt__say_once remembers; older ones may be logged again */

struct dt_ctx {
    atomic_int refs; /* 1 for the user, and 1 for each living storage, tape and module */
    dt_allocator allocator;
    struct dt__regions *regions; /* the source of the host's memory; NULL: the user's allocator */
    dt__pool pool;
    dt_status status;
    bool of_machine; /* dt_error_of_machine of the latest error */
    char message[DT__MESSAGE_SIZE];
    dt_logger log;
    void *log_user;
    dt_work_told told; /* dt_set_progress; NULL: no callback */
    void *told_user;
    dt__ledger work;         /* the planned work */
    double began;            /* when the work began */
    double share;            /* the share reported last; it never decreases */
    uint64_t said[DT__SAID]; /* hashes of lines of dt__say_once; 0: none */
    uint64_t seed;
    dt__stream stream[DT__PURPOSES];
    bool blank;  /* initial weights stay 0 and are not drawn: a file overwrites them */
    bool hollow; /* blank, and matrices have no memory until they are read from the file */
    int threads;
    dt__team *team;
    dt__registry registry[DT__REGISTRIES];
    uint64_t cpu_mask;
    bool leave_blas_threads;
    int products;                         /* DT_PRODUCTS_... */
    const struct dt__kernels *kernels[2]; /* f32, f64; filled by src/kernels */
    const struct dt__spread *spread;      /* autograd/spread.h; NULL: every rank has all experts */
    void *convs;                          /* plans of convolutions (src/kernels), or NULL */
    void (*free_convs)(dt_ctx *ctx);
};

void dt__ctx_retain(dt_ctx *ctx);
void dt__ctx_release(dt_ctx *ctx);

/* The registered item of this name; NULL: none. */
const void *dt__registered_named(const dt_ctx *ctx, dt__registered which, const char *name);
/* NOMEM. */
dt_status dt__register(dt_ctx *ctx, dt__registered which, const void *item);
/* Finds an item kind of an ITEMS key: in the key's own list or, with own_kinds, among the
 * registered ones. */
const dt_item_kind *dt__item_kind_named(const dt_ctx *ctx, const dt_key *key, const char *name);

dt_status dt__fail_v(dt_ctx *ctx, dt_status status, const char *format, va_list arguments);
/* In a function with `...` after `format`: writes the formatted text to `size` bytes of `text`, cut
 * if it is longer. */
#define DT__FORMAT(text, size, format)                                                             \
    do {                                                                                           \
        va_list dt__list;                                                                          \
        va_start(dt__list, format);                                                                \
        vsnprintf(text, size, format, dt__list);                                                   \
        va_end(dt__list);                                                                          \
    } while (0)
/* Logs one line. */
void dt__say(dt_ctx *ctx, const char *format, ...) DT_PRINTF(2, 3);
/* Logs one line, unless the context has logged it before: a file may be opened several times. */
void dt__say_once(dt_ctx *ctx, const char *format, ...) DT_PRINTF(2, 3);

/* The time that a context's work still takes (core/estimate.h). Callers plan amounts of work first
 * and report what is done; the callback of dt_set_progress runs after each report. */
void dt__begin_work(dt_ctx *ctx);
void dt__plan_work(dt_ctx *ctx, dt__work_of which, double amount);
void dt__expect_work(dt_ctx *ctx, dt__work_of which, double amount); /* which is planned later */
void dt__did_work(dt_ctx *ctx, dt__work_of which, double amount);
/* Reports a part of a piece that dt__did_work reports when it is complete: for loops within a piece
 * that may take seconds. */
void dt__did_part(dt_ctx *ctx, dt__work_of which, double amount);
void dt__tried_work(dt_ctx *ctx, dt__work_of which, double amount); /* work that was not planned */
void dt__cut_work(dt_ctx *ctx, dt__work_of which);                  /* cancels the rest of it */
/* the time since the last report belongs to no work */
void dt__pass_work(dt_ctx *ctx);

/* Parallel loops of the calling thread (core/threads.h) run on the context's threads until leave,
 * which restores the previous team: the value that enter returned. */
dt__team *dt__threads_enter(const dt_ctx *ctx);
void dt__threads_leave(dt__team *before);
/* Changes the context's number of threads, outside of its loops; no effect if it is the same.
 * Errors: NOMEM, which changes nothing. */
dt_status dt__threads_set(dt_ctx *ctx, int threads);

#endif
