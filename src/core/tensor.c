/* Tensor handles and storages. A handle is a view (dtype, dims, strides, offset) of a storage.
 * Every write increments the storage's version, by which stale codes and writes between forward and
 * backward are detected. */
#include "core/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DT_F32] = { "f32", 4 },   [DT_F64] = { "f64", 8 }, [DT_I32] = { "i32", 4 },
    [DT_I64] = { "i64", 8 },   [DT_U8] = { "u8", 1 },   [DT_I8] = { "i8", 1 },
    [DT_BOOL] = { "bool", 1 }, [DT_I4] = { "i4", 0 },
};

static bool known(dt_dtype d) { return (int)d >= 0 && (int)d < DT__COUNT_OF(dtypes); }

const char *dt_dtype_name(dt_dtype dtype) { return known(dtype) ? dtypes[dtype].name : "?"; }
size_t dt_dtype_size(dt_dtype dtype) { return known(dtype) ? dtypes[dtype].size : 0; }

/* Bytes of `count` elements; DT_I4 has two per byte. False on overflow. */
static bool dtype_bytes(dt_dtype dtype, int64_t count, size_t *bytes)
{
    if (count < 0) return false;
    if (dtype == DT_I4) return dt__mul_size((uint64_t)(count / 2 + count % 2), 1, bytes);
    return dt__mul_size((uint64_t)count, dt_dtype_size(dtype), bytes);
}

/* ---- storage ------------------------------------------------------------------------------ */

/* Where data that is allocated together with its storage begins. */
static void *own_data(dt__storage *s) { return (char *)s + DT__ALIGNMENT; }

dt__storage *dt__storage_create(dt_ctx *ctx, uint64_t bytes)
{
    size_t whole;
    if (!dt__add_size(bytes, DT__ALIGNMENT, &whole)) whole = SIZE_MAX;
    dt__storage *s = dt__alloc(ctx, whole);
    if (s == NULL) return NULL;
    _Static_assert(sizeof *s <= DT__ALIGNMENT, "the storage's head fits before its data");
    atomic_init(&s->refs, 1);
    atomic_init(&s->needed, 0);
    s->ctx = ctx;
    s->bytes = (size_t)bytes;
    s->version = 0;
    s->mapped = 0;
    s->frozen = s->dequantized = false;
    s->data = own_data(s);
    s->halves = NULL;
    dt__ctx_retain(ctx);
    return s;
}

void dt__storage_retain(dt__storage *s) { atomic_fetch_add(&s->refs, 1); }

/* Uncounts the promised bytes of a storage that is filled, or freed. */
static void end_promise(const dt__storage *s)
{
    size_t *all = &s->ctx->pool.promised;
    *all = *all > s->bytes ? *all - s->bytes : 0;
}

void dt__halves_release(dt_ctx *ctx, dt__halves *h)
{
    if (h != NULL && --h->refs == 0) dt__release(ctx, h);
}

void dt__storage_release(dt__storage *s)
{
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1) return;
    dt_ctx *ctx = s->ctx;
    dt__halves_release(ctx, s->halves);
    if (s->data == NULL) end_promise(s);
    if (s->mapped > 0) munmap(s->data, s->mapped);
    else if (s->data != own_data(s)) dt__release(ctx, s->data);
    dt__release(ctx, s);
    dt__ctx_release(ctx);
}

dt__storage *dt__storage_of_map(dt_ctx *ctx, void *map, size_t bytes)
{
    dt__storage *s = dt__storage_create(ctx, 0);
    if (s == NULL) {
        munmap(map, bytes);
        return NULL;
    }
    s->bytes = s->mapped = bytes;
    s->data = map;
    return s;
}

/* A storage whose bytes dt__storage_fill allocates, uninitialized. Promised bytes count towards the
 * pool's limit. NULL: NOMEM. */
static dt__storage *promise(dt_ctx *ctx, size_t bytes)
{
    dt__pool *pool = &ctx->pool;
    const size_t used = pool->count.used + pool->promised;
    if (pool->limit != 0 && (used > pool->limit || bytes > pool->limit - used)) {
        pool->limited = true;
        dt_fail(ctx, DT_ERR_NOMEM, "out of memory: %zu bytes requested, %zu in use", bytes, used);
        return NULL;
    }
    dt__storage *s = dt__storage_create(ctx, 0);
    if (s == NULL) return NULL;
    pool->promised += bytes;
    s->bytes = bytes;
    s->data = NULL;
    return s;
}

dt_status dt__storage_fill(dt__storage *s)
{
    if (s->data != NULL) return DT_OK;
    s->data = dt__alloc(s->ctx, s->bytes);
    if (s->data == NULL) return DT_ERR_NOMEM;
    end_promise(s);
    return DT_OK;
}

/* ---- handles ------------------------------------------------------------------------------ */

/* Overflows wrap around; dt__handle_create refuses such shapes. */
void dt__contiguous_strides(int rank, const int64_t *dims, int64_t *strides)
{
    uint64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = (int64_t)step;
        step *= dims[i] > 0 ? (uint64_t)dims[i] : 1;
    }
}

/* Whether count, strides and bytes are representable. If one of the dims is 0 the count is 0, but
 * strides are products of the other dims. */
static bool shape_fits(dt_dtype dtype, int rank, const int64_t *dims, int64_t *count)
{
    int64_t filled[DT_MAX_RANK] = { 0 }, most;
    size_t bytes;
    for (int i = 0; i < rank; i++) filled[i] = dims[i] == 0 ? 1 : dims[i];
    return dt__product(rank, dims, count) && dt__product(rank, filled, &most) &&
           dtype_bytes(dtype, most, &bytes) && bytes <= SIZE_MAX / 4;
}

bool dt__same_dims(const dt_tensor *a, const dt_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

char *dt__dims_text(int rank, const int64_t *dims, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "%lld" : ",%lld",
                                 (long long)dims[i]);
    }
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

char *dt__shape_text(const dt_tensor *x, bool dtype, char *text, size_t size)
{
    char dims[160];
    const char *name = dtype ? dt_dtype_name(x->dtype) : "";
    if (!x->grouped) {
        snprintf(text, size, "%s%s", name, dt__dims_text(x->rank, x->dims, dims, sizeof dims));
    } else {
        snprintf(text, size, "grouped(%lld x %s)%s%s", (long long)x->dims[0],
                 dt__dims_text(x->rank - 1, x->dims + 1, dims, sizeof dims), dtype ? " " : "",
                 name);
    }
    return text;
}

dt_status dt__handle_create(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                            dt_tensor **out)
{
    *out = NULL;
    if (!known(dtype)) return dt_fail(ctx, DT_ERR_DTYPE, "tensor: unknown dtype %d", (int)dtype);
    if (rank < 0 || rank > DT_MAX_RANK || (rank > 0 && dims == NULL)) {
        return dt_fail(ctx, DT_ERR_ARG, "tensor: rank %d is outside 0...%d", rank, DT_MAX_RANK);
    }
    int64_t count;
    char text[128];
    if (!shape_fits(dtype, rank, dims, &count)) {
        return dt_fail(ctx, DT_ERR_ARG, "tensor: shape %s is negative or too large",
                       dt__dims_text(rank, dims, text, sizeof text));
    }
    _Static_assert(sizeof(dt_tensor) <= 256, "a tape keeps several a record: a block of 320");
    dt_tensor *x = dt__alloc_zero(ctx, sizeof *x);
    if (x == NULL) return DT_ERR_NOMEM;
    x->ctx = ctx;
    atomic_init(&x->refs, 1);
    x->dtype = dtype;
    x->rank = rank;
    if (rank > 0) memcpy(x->dims, dims, (size_t)rank * sizeof dims[0]);
    dt__contiguous_strides(rank, x->dims, x->strides);
    x->count = count;
    dt__ctx_retain(ctx);
    *out = x;
    return DT_OK;
}

/* Gives a new handle its storage; NULL: NOMEM, and the handle is freed. */
static dt_status put_storage(dt_tensor **x, dt__storage *storage)
{
    (*x)->storage = storage;
    if (storage != NULL) return DT_OK;
    dt_tensor_free(*x);
    *x = NULL;
    return DT_ERR_NOMEM;
}

dt_status dt__tensor_create_raw(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                dt_tensor **out)
{
    size_t bytes = 0;
    DT__TRY(dt__handle_create(ctx, dtype, rank, dims, out));
    dtype_bytes(dtype, (*out)->count, &bytes);
    return put_storage(out, dt__storage_create(ctx, bytes));
}

dt_status dt__tensor_create_hollow(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                   dt_tensor **out)
{
    size_t bytes = 0;
    DT__TRY(dt__handle_create(ctx, dtype, rank, dims, out));
    dtype_bytes(dtype, (*out)->count, &bytes);
    return put_storage(out, promise(ctx, bytes));
}

dt_status dt__tensor_create_shape(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                                  dt_tensor **out)
{
    if (!dt__is_float(dtype)) return dt_tensor_create(ctx, dtype, rank, dims, out);
    DT__TRY(dt__handle_create(ctx, dtype, rank, dims, out));
    return put_storage(out, dt__storage_create(ctx, 0));
}

dt_status dt_tensor_create(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                           dt_tensor **out)
{
    DT__NEED2(ctx, ctx, out);
    DT__TRY(dt__tensor_create_raw(ctx, dtype, rank, dims, out));
    memset((*out)->storage->data, 0, (*out)->storage->bytes);
    return DT_OK;
}

dt_status dt_tensor_from(dt_ctx *ctx, dt_dtype dtype, int rank, const int64_t *dims,
                         const void *data, dt_tensor **out)
{
    DT__NEED2(ctx, ctx, out);
    DT__TRY(dt__tensor_create_raw(ctx, dtype, rank, dims, out));
    if ((*out)->storage->bytes > 0) {
        memcpy((*out)->storage->data, data, (*out)->storage->bytes);
    }
    return DT_OK;
}

dt_status dt__view(dt_ctx *ctx, const dt_tensor *x, dt_tensor **out)
{
    DT__TRY(dt__handle_create(ctx, x->dtype, x->rank, x->dims, out));
    dt_tensor *v = *out;
    memcpy(v->strides, x->strides, sizeof v->strides);
    v->offset = x->offset;
    v->grouped = x->grouped;
    v->spread = x->spread;
    v->name = dt__text_retain(x->name);
    v->storage = x->storage;
    if (v->storage != NULL) dt__storage_retain(v->storage);
    return DT_OK;
}

/* Whether x can have views; if not, an error that begins with `who`. */
static dt_status want_plain(const dt_tensor *x, const char *who)
{
    if (x->kind == NULL && x->dtype != DT_I4 && x->storage != NULL) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_STATE, "%s: a wrapper or an opaque tensor has no views", who);
}

static void copy_elements(const dt_tensor *from, dt_tensor *to)
{
    const size_t size = dt_dtype_size(from->dtype);
    const char *x = dt__data(from);
    char *y = dt__data_mut(to);
    int64_t at[DT_MAX_RANK] = { 0 }, step = 0;
    for (int64_t i = 0; i < from->count; i++, y += size) {
        memcpy(y, x + step * (int64_t)size, size);
        for (int d = from->rank - 1; d >= 0; d--) {
            step += from->strides[d];
            if (++at[d] < from->dims[d]) break;
            step -= from->strides[d] * from->dims[d];
            at[d] = 0;
        }
    }
}

bool dt__is_own(const dt_tensor *x)
{
    return atomic_load(&x->refs) == 1 && atomic_load(&x->storage->refs) == 1 && dt_is_contiguous(x);
}

dt_status dt__contiguous(dt_ctx *ctx, const dt_tensor *x, dt_tensor **out)
{
    if (dt_is_contiguous(x)) return dt__view(ctx, x, out);
    DT__TRY(dt__tensor_create_raw(ctx, x->dtype, x->rank, x->dims, out));
    copy_elements(x, *out);
    return DT_OK;
}

dt_status dt_tensor_contiguous(const dt_tensor *x, dt_tensor **out)
{
    DT__NEED2(dt_ctx_of(x), x, out);
    *out = NULL;
    DT__TRY(want_plain(x, "contiguous"));
    return dt__contiguous(x->ctx, x, out);
}

dt_status dt_tensor_narrow(dt_tensor *x, int dim, int64_t start, int64_t count, dt_tensor **out)
{
    DT__NEED2(dt_ctx_of(x), x, out);
    *out = NULL;
    DT__TRY(want_plain(x, "narrow"));
    if (x->grouped) {
        char text[160];
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "narrow: x is a grouped parameter of %lld %s; dt_grouped_expert gives one "
                       "of them",
                       (long long)x->dims[0],
                       dt__dims_text(x->rank - 1, x->dims + 1, text, sizeof text));
    }
    const int d = dim < 0 ? dim + x->rank : dim;
    if (d < 0 || d >= x->rank || start < 0 || count < 0 || start > x->dims[d] - count) {
        return dt_fail(x->ctx, DT_ERR_ARG,
                       "narrow: elements %lld...+%lld of dimension %d do not exist",
                       (long long)start, (long long)count, dim);
    }
    DT__TRY(dt__view(x->ctx, x, out));
    (*out)->dims[d] = count;
    (*out)->offset += start * x->strides[d];
    dt__product((*out)->rank, (*out)->dims, &(*out)->count);
    return DT_OK;
}

void dt__retain(dt_tensor *x) { atomic_fetch_add(&x->refs, 1); }

void dt__set_name(dt_tensor *x, const char *text)
{
    dt__text_release(x->name);
    x->name = text;
}

void dt__attach(dt_tensor *x, dt__attachment *a)
{
    a->next = x->attached;
    x->attached = a;
}

void dt__detach_all(dt_tensor *x)
{
    while (x->attached != NULL) {
        dt__attachment *a = x->attached;
        x->attached = a->next;
        a->drop(a);
    }
}

void dt__drop_storage(dt_tensor *x)
{
    dt__detach_all(x);
    dt__storage_release(x->storage);
    x->storage = NULL;
}

void dt_tensor_free(dt_tensor *x)
{
    if (x == NULL || atomic_fetch_sub(&x->refs, 1) != 1) return;
    dt__drop_storage(x);
    if (x->drop_ext != NULL) x->drop_ext(x);
    DT__TENSORS_FREE(x->grad, x->whole);
    dt__set_name(x, NULL);
    dt_ctx *ctx = x->ctx;
    dt__release(ctx, x);
    dt__ctx_release(ctx);
}

void dt__free_tensors(int n, dt_tensor *const *x)
{
    for (int i = 0; i < n; i++) dt_tensor_free(x[i]);
}

/* ---- questions ---------------------------------------------------------------------------- */

static int wrap(const dt_tensor *x, int dim) { return dim < 0 ? dim + x->rank : dim; }
static bool has_dim(const dt_tensor *x, int d) { return d >= 0 && d < x->rank; }

dt_dtype dt_dtype_of(const dt_tensor *x) { return x == NULL ? (dt_dtype){ 0 } : x->dtype; }
int dt_rank(const dt_tensor *x) { return x == NULL ? 0 : x->rank; }
int64_t dt_count(const dt_tensor *x) { return x == NULL ? 0 : x->count; }
dt_ctx *dt_ctx_of(const dt_tensor *x) { return x == NULL ? NULL : x->ctx; }
bool dt_requires_grad(const dt_tensor *x)
{
    if (x == NULL) return false;
    return x->whole != NULL ? x->whole->requires_grad : x->requires_grad;
}

int64_t dt_dim(const dt_tensor *x, int dim)
{
    if (x == NULL) return 0;
    return has_dim(x, wrap(x, dim)) ? x->dims[wrap(x, dim)] : 0;
}

int64_t dt_stride(const dt_tensor *x, int dim)
{
    if (x == NULL) return 0;
    return has_dim(x, wrap(x, dim)) ? x->strides[wrap(x, dim)] : 0;
}

uint64_t dt_tensor_version(const dt_tensor *x)
{
    if (x == NULL) return 0;
    return x->storage == NULL ? 0 : x->storage->version;
}

bool dt_is_contiguous(const dt_tensor *x)
{
    if (x == NULL) return false;
    int64_t step = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->dims[i] != 1 && x->strides[i] != step) return x->count == 0;
        step *= x->dims[i];
    }
    return true;
}

bool dt__may_read_data(const dt_tensor *x, const char *who)
{
    if (x->kind != NULL) {
        dt_fail(x->ctx, DT_ERR_STATE, "%s: a wrapper has no data of its own; take dt_inner(x)",
                who);
        return false;
    }
    if (x->dtype == DT_I4) {
        dt_fail(x->ctx, DT_ERR_STATE, "%s: an i4 tensor is opaque", who);
        return false;
    }
    if (x->storage == NULL) {
        dt_fail(x->ctx, DT_ERR_STATE, "%s: the tensor was dropped%s", who,
                x->tape != NULL ? "; dt_keep keeps what a module made" : "");
        return false;
    }
    return true;
}

bool dt__may_write_data(const dt_tensor *x, const char *who)
{
    if (!dt__may_read_data(x, who)) return false;
    if (x->storage->frozen) {
        dt_fail(x->ctx, DT_ERR_STATE, "%s: the tensor belongs to a frozen model", who);
        return false;
    }
    if (!x->storage->dequantized) return true;
    dt_fail(x->ctx, DT_ERR_STATE,
            "%s: a view of dequantized values; write dt_inner(w) of the wrapper", who);
    return false;
}

/* Whether memory order is row-major order. */
static bool ordered(const dt_tensor *x, const char *who)
{
    char text[192];
    if (dt_is_contiguous(x)) return true;
    dt_fail(x->ctx, DT_ERR_STATE,
            "%s: %s is a view whose elements are not in row-major order in memory; "
            "dt_tensor_contiguous, or dt_contiguous on a tape, gives them so",
            who, dt__shape_text(x, true, text, sizeof text));
    return false;
}

const void *dt__values(const dt_tensor *x) { return ordered(x, "values") ? dt__data(x) : NULL; }

void *dt__values_mut(dt_tensor *x) { return (void *)(uintptr_t)dt__values(x); }

const void *dt_data(const dt_tensor *x)
{
    if (x == NULL) return NULL;
    return dt__may_read_data(x, "dt_data") && ordered(x, "dt_data") ? dt__data(x) : NULL;
}

void *dt_data_mut(dt_tensor *x)
{
    if (x == NULL) return NULL;
    if (!dt__may_write_data(x, "dt_data_mut") || !ordered(x, "dt_data_mut")) return NULL;
    x->storage->version++;
    return dt__data_mut(x);
}

static double element(const dt_tensor *x, const void *p)
{
    switch (x->dtype) {
    case DT_F32: return *(const float *)p;
    case DT_F64: return *(const double *)p;
    case DT_I32: return *(const int32_t *)p;
    case DT_I64: return (double)*(const int64_t *)p;
    case DT_I8: return *(const int8_t *)p;
    default: return *(const uint8_t *)p;
    }
}

double dt_item(const dt_tensor *x)
{
    if (x == NULL) return NAN;
    if (x->count != 1) {
        dt_fail(x->ctx, DT_ERR_SHAPE, "dt_item: must have one element, not %lld",
                (long long)x->count);
        return NAN;
    }
    const void *p = dt_data(x);
    return p == NULL ? NAN : element(x, p);
}

static void put(const dt_tensor *x, void *p, double v)
{
    switch (x->dtype) {
    case DT_F32: *(float *)p = (float)v; break;
    case DT_F64: *(double *)p = v; break;
    case DT_I32: *(int32_t *)p = (int32_t)v; break;
    case DT_I64: *(int64_t *)p = (int64_t)v; break;
    case DT_I8: *(int8_t *)p = (int8_t)v; break;
    case DT_BOOL: *(uint8_t *)p = v != 0; break;
    default: *(uint8_t *)p = (uint8_t)v; break;
    }
}

/* Whether an integer dtype holds this value; floats hold any. */
static bool fits(dt_dtype d, double v)
{
    switch (d) {
    case DT_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case DT_I64: return v >= -0x1p63 && v < 0x1p63;
    case DT_I8: return v >= INT8_MIN && v <= INT8_MAX;
    case DT_U8: return v >= 0 && v <= UINT8_MAX;
    case DT_I4: return false;
    default: return true;
    }
}

dt_status dt_fill(dt_tensor *x, double value)
{
    DT__NEED(dt_ctx_of(x), x);
    if (!fits(x->dtype, value)) {
        return dt_fail(x->ctx, DT_ERR_ARG, "dt_fill: %g is not a value of %s", value,
                       dt_dtype_name(x->dtype));
    }
    if (!dt_is_contiguous(x)) {
        return dt_fail(x->ctx, DT_ERR_ARG, "dt_fill: the tensor must be contiguous");
    }
    if (x->storage != NULL && x->storage->bytes > 0 && x->storage->data == NULL) {
        return DT_OK; /* promised: its values come from a file */
    }
    char *p = dt_data_mut(x);
    if (p == NULL && x->count > 0) return x->ctx->status;
    const size_t size = dt_dtype_size(x->dtype);
    for (int64_t k = 0; k < x->count; k++) put(x, p + (size_t)k * size, value);
    return DT_OK;
}
