/* The tensor: a strided view of a reference-counted storage with a version counter. */
#ifndef DT__CORE_TENSOR_H
#define DT__CORE_TENSOR_H

#include "core/core.h"

struct dt__kind; /* src/autograd/kind.h; NULL in a handle: dense */

typedef struct dt__storage {
    atomic_int refs;
    atomic_int needed; /* number of tape records that need its values for backward */
    dt_ctx *ctx;
    size_t bytes;
    uint64_t version;
    bool frozen;               /* writes are refused with STATE */
    bool dequantized;          /* values of a FakeQuantTensor or packed tensor: writes are STATE */
    void *data;                /* aligned to 64; NULL: promised, and not allocated yet */
    size_t mapped;             /* bytes of a mapped file that `data` points to; 0: data is memory */
    struct dt__halves *halves; /* its values as bf16, or NULL */
} dt__storage;

/* The values of a storage of floats as bf16 (autograd/halves.h), for one thread. */
typedef struct dt__halves {
    int refs;         /* of the storage, and of what backward reads */
    uint64_t version; /* of the storage when they were computed */
    int64_t count;
    uint16_t *x;
} dt__halves;

/* A value computed from a tensor and freed with it, such as its codes. */
typedef struct dt__attachment {
    struct dt__attachment *next;
    void (*drop)(struct dt__attachment *self);
} dt__attachment;

struct dt_tensor {
    dt_ctx *ctx;
    atomic_int refs; /* references to the handle: of user, tape, modules, records */
    dt_dtype dtype;
    int rank;
    int32_t
        /* above 0: the first dimension is divided evenly among this many experts, of which x has
         * only those of this rank (autograd/spread.h) */
        spread;
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK]; /* strides in elements */
    int64_t offset, count;
    dt__storage *storage; /* NULL: dropped, or only a shape */
    const struct dt__kind *kind;
    void *ext;                     /* data that belongs to the kind */
    void (*drop_ext)(dt_tensor *); /* frees ext with the handle */
    dt__attachment *attached;
    dt_tape *tape; /* the tape that lent it; NULL: a leaf */
    int scope;     /* depth of the module whose forward created it */
    bool dropped;
    bool requires_grad;
    bool grouped;  /* the first dimension counts experts */
    bool no_decay; /* optimizers apply no weight decay: learned scales and the like */
    /* for an expert: the grouped tensor whose elements it views and whose gradient contains its
     * own; a reference. NULL: not an expert */
    dt_tensor *whole;
    dt_tensor *grad;
    const char *name; /* for messages: a dt__text, the path of a parameter; NULL: unknown */
    void (*project)(dt_tensor *); /* called after an optimizer's update, to restore a constraint;
                                   * NULL: none */
};

dt__storage *dt__storage_create(dt_ctx *ctx, uint64_t bytes); /* uninitialized; NULL: NOMEM */
/* Allocates a promised storage; no effect if it has data. Errors: NOMEM. */
dt_status dt__storage_fill(dt__storage *s);
void dt__halves_release(dt_ctx *ctx, dt__halves *h);
/* A storage of `bytes` bytes of a mapped file. Takes over the mapping, also on an error. NULL:
 * NOMEM. */
dt__storage *dt__storage_of_map(dt_ctx *ctx, void *map, size_t bytes);
void dt__storage_retain(dt__storage *s);
void dt__storage_release(dt__storage *s);

/* A handle without storage: dtype, shape, contiguous strides. Checks rank and extents. */
dt_status dt__handle_create(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                            dt_tensor **out);
/* The same with an uninitialized storage. */
dt_status dt__tensor_create_raw(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                dt_tensor **out);
/* A tensor whose storage is promised. */
dt_status dt__tensor_create_hollow(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                   dt_tensor **out);
/* For a tape that only checks shapes: floats have no memory and must not be read; integers, which
 * shape functions may read, are 0. */
dt_status dt__tensor_create_shape(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                  dt_tensor **out);
/* The bytes of its elements when contiguous. */
static inline size_t dt__bytes_of(const dt_tensor *x)
{
    return (size_t)x->count * dt_dtype_size(x->dtype);
}

/* A new dense handle with the same storage, shape and grouping, not on a tape. Also for wrappers
 * that have a storage (the master's). */
dt_status dt__view(dt_ctx *ctx, const dt_tensor *x, dt_tensor **out);
/* Whether x is contiguous and no other handle or view refers to its storage: it may be
 * overwritten. */
bool dt__is_own(const dt_tensor *x);
/* dt_tensor_contiguous for a handle of any context; also for wrappers that have a storage. */
dt_status dt__contiguous(dt_ctx *ctx, const dt_tensor *x, dt_tensor **out);
void dt__retain(dt_tensor *x);
/* dt_tensor_free for several tensors, in their order. */
#define DT__TENSORS_FREE(...)                                                                      \
    dt__free_tensors(DT__COUNT_OF(((dt_tensor *[]){ __VA_ARGS__ })), (dt_tensor *[]){ __VA_ARGS__ })
void dt__free_tensors(int n, dt_tensor *const *x);
/* Replaces the name of x; takes over one reference of `text`, a dt__text or NULL. */
void dt__set_name(dt_tensor *x, const char *text);
/* Releases the storage and the attachments; shape and gradient remain. */
void dt__drop_storage(dt_tensor *x);
void dt__attach(dt_tensor *x, dt__attachment *a);
void dt__detach_all(dt_tensor *x);

static inline bool dt__is_spread(const dt_tensor *x) { return x->spread > 0; }

void dt__contiguous_strides(int rank, const int64_t *dims, int64_t *strides);
bool dt__same_dims(const dt_tensor *a, const dt_tensor *b);
/* Writes "[2,3]" into text; returns text. */
char *dt__dims_text(int rank, const int64_t *dims, char *text, size_t size);
/* Likewise "f32[2,3]" or "grouped(2 x [3]) f32"; `dtype` false: without the dtype. */
char *dt__shape_text(const dt_tensor *x, bool dtype, char *text, size_t size);

/* dt_fill_uniform and dt_fill_normal, from the stream of `purpose`. */
dt_status dt__draw_uniform(dt_tensor *x, dt__purpose purpose, double low, double high);
dt_status dt__draw_normal(dt_tensor *x, dt__purpose purpose, double mean, double deviation);

static inline bool dt__is_float(dt_dtype d) { return d == DT_F32 || d == DT_F64; }

/* Whether `who` may use the elements of x; otherwise STATE. */
bool dt__may_read_data(const dt_tensor *x, const char *who);
bool dt__may_write_data(const dt_tensor *x, const char *who);

/* The first element of a dense tensor, unchecked; NULL if it has no storage, or one without data
 * yet. */
static inline const void *dt__data(const dt_tensor *x)
{
    const char *data = x->storage == NULL ? NULL : x->storage->data;
    return data == NULL ? NULL : data + (size_t)x->offset * dt_dtype_size(x->dtype);
}
static inline void *dt__data_mut(dt_tensor *x) { return (void *)(uintptr_t)dt__data(x); }
/* The same for a contiguous tensor; otherwise NULL and STATE. Outside of ops, which handle strides,
 * elements are only read and written through these. */
const void *dt__values(const dt_tensor *x);
void *dt__values_mut(dt_tensor *x);
static inline int64_t dt__count(const dt_tensor *x) { return x->count; }

#endif
