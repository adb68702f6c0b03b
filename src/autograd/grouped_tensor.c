/* Grouped parameters: one tensor [count, dims...] that holds count experts [dims...]. The handle
 * has the flag `grouped`, as has every handle with the same storage and shape (dt__view).
 *
 * An expert is a handle that references the grouped tensor (`whole`) and has no gradient slot of
 * its own. Its gradients are added to a slice of the gradient of `whole`, which begins as zeros.
 * dt_grad of an expert is a view attached to that gradient and freed with it. An expert is never
 * the `whole` of another tensor. */
#include "autograd/kind.h"
#include "autograd/tape.h"
#include "kernels/kernels.h"

#include <string.h>

static dt_status check_can_be_grouped(const dt_tensor *x)
{
    if (x->whole != NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE, "grouped: x is an expert of a grouped parameter");
    }
    if (x->tape != NULL || x->storage == NULL || x->kind != NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "grouped: a plain leaf is marked, before it is prepared; x is %s",
                       x->tape != NULL   ? "lent by a tape"
                       : x->kind != NULL ? x->kind->name
                                         : "only a shape");
    }
    if (x->rank < 2 || x->dims[0] < 1 || !dt_is_contiguous(x)) {
        char text[160];
        return dt_fail(x->ctx, DT_ERR_SHAPE,
                       "grouped: x must be a contiguous [experts, dims...] with at least one "
                       "expert and one dimension; it is %s%s",
                       dt__dims_text(x->rank, x->dims, text, sizeof text),
                       dt_is_contiguous(x) ? "" : ", strided");
    }
    return DT_OK;
}

dt_status dt_set_grouped(dt_tensor *x)
{
    DT__NEED(dt_ctx_of(x), x);
    if (x->grouped) return DT_OK;
    DT__TRY(check_can_be_grouped(x));
    x->grouped = true;
    return DT_OK;
}

bool dt_is_grouped(const dt_tensor *x) { return x == NULL ? false : x->grouped; }

int64_t dt_grouped_count(const dt_tensor *x)
{
    if (x == NULL) return 0;
    return x->grouped ? x->dims[0] : 0;
}

static dt_status want_grouped(const dt_tensor *x, const char *who)
{
    char text[192];
    if (x->grouped) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_STATE, "%s: x is not a grouped parameter but %s", who,
                   dt__shape_text(x, true, text, sizeof text));
}

int dt_grouped_shard_axis(const dt_tensor *w, int axis)
{
    if (w == NULL) return 0;
    if (want_grouped(w, "grouped_shard_axis") != DT_OK) return -1;
    const int rank = w->rank - 1, from_start = axis < 0 ? axis + rank : axis;
    if (from_start >= 0 && from_start < rank) return from_start + 1;
    dt_fail(w->ctx, DT_ERR_ARG, "grouped_shard_axis: an expert has axes %d...%d, not %d", -rank,
            rank - 1, axis);
    return -1;
}

dt_status dt__portion(dt_tensor *x, int64_t i, int64_t n, dt_tensor **out)
{
    DT__TRY(dt__view(x->ctx, x, out));
    dt_tensor *portion = *out;
    portion->grouped = false;
    portion->dims[0] /= n;
    portion->count /= n;
    portion->offset += i * portion->count;
    if (x->tape != NULL) return DT_OK;
    dt__retain(x);
    portion->whole = x;
    return DT_OK;
}

/* The index in `whole` of an expert's first element. */
static int64_t first_of(const dt_tensor *portion)
{
    return portion->offset - portion->whole->offset;
}

static bool is_read_only(const dt_tensor *x) { return dt__kind_of(x)->inner == NULL; }

static dt_status add_to_whole(dt_tape *t, dt_tensor *portion, const dt_tensor *d)
{
    dt_tensor *whole = portion->whole;
    const size_t size = dt_dtype_size(portion->dtype);
    if (is_read_only(whole)) {
        return dt_fail(
            t->ctx, DT_ERR_STATE,
            "%s: its grouped parameter was converted after dt_grouped_expert, and has no gradient",
            portion->name != NULL ? portion->name : "an expert");
    }
    const bool first = whole->grad == NULL;
    if (first) {
        DT__TRY(dt_tensor_create(whole->ctx, whole->dtype, whole->rank, whole->dims, &whole->grad));
    }
    char *slice = (char *)dt__data_mut(whole->grad) + (size_t)first_of(portion) * size;
    if (first) memcpy(slice, dt__data(d), (size_t)d->count * size);
    else t->ctx->kernels[portion->dtype]->add_into(d->count, dt__data(d), slice);
    whole->grad->storage->version++;
    return DT_OK;
}

dt_status dt__accumulate_portion(dt_tape *t, dt_tensor *portion, dt_tensor *d)
{
    const dt_status s = add_to_whole(t, portion, d);
    dt_tensor_free(d);
    return s;
}

/* A view of an expert's gradient, attached to the gradient of `whole`. */
typedef struct slice {
    dt__attachment head;
    dt_ctx *ctx;
    int64_t first;
    dt_tensor *view;
} slice;

static void drop_slice(dt__attachment *a)
{
    slice *s = (slice *)(void *)a;
    dt_tensor_free(s->view);
    dt__release(s->ctx, s);
}

static dt_status make_slice(const dt_tensor *portion, dt_tensor *grad, dt_tensor **out)
{
    slice *s = dt__alloc(grad->ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    *s = (slice){ .head.drop = drop_slice, .ctx = grad->ctx, .first = first_of(portion) };
    const dt_status made =
        dt__handle_create(grad->ctx, portion->dtype, portion->rank, portion->dims, &s->view);
    if (made != DT_OK) {
        dt__release(grad->ctx, s);
        return made;
    }
    s->view->offset = grad->offset + first_of(portion);
    s->view->storage = grad->storage;
    dt__storage_retain(grad->storage);
    dt__attach(grad, &s->head);
    *out = s->view;
    return DT_OK;
}

dt_tensor *dt__grad_of_portion(const dt_tensor *portion)
{
    dt_tensor *grad = portion->whole->grad, *view = NULL;
    for (dt__attachment *a = grad == NULL ? NULL : grad->attached; a != NULL; a = a->next) {
        const slice *s = (const slice *)(const void *)a;
        if (a->drop == drop_slice && s->first == first_of(portion) &&
            dt__same_dims(s->view, portion)) {
            return s->view;
        }
    }
    if (grad != NULL) make_slice(portion, grad, &view);
    return view;
}

void dt__clear_portion(dt_tensor *portion)
{
    dt_tensor *grad = portion->whole->grad;
    if (grad == NULL) return;
    const size_t size = dt_dtype_size(portion->dtype);
    memset((char *)dt__data_mut(grad) + (size_t)first_of(portion) * size, 0,
           (size_t)portion->count * size);
    grad->storage->version++;
}

static dt_status check_expert(const dt_tensor *w, int64_t i)
{
    DT__TRY(want_grouped(w, "grouped_expert"));
    if (w->dropped || (w->tape != NULL && w->requires_grad)) {
        return dt_fail(w->ctx, DT_ERR_STATE,
                       "grouped_expert: w is %s; take experts of the parameter",
                       w->dropped ? "dropped" : "a tape's, and requires a gradient");
    }
    if (i >= 0 && i < w->dims[0]) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_ARG, "grouped_expert: there are experts 0...%lld, not %lld",
                   (long long)w->dims[0] - 1, (long long)i);
}

static dt_status take_expert(dt_tensor *w, int64_t i, dt_tensor **out)
{
    DT__TRY(dt__portion(w, i, w->dims[0], out));
    dt_tensor *m = *out;
    m->rank--;
    memmove(m->dims, m->dims + 1, (size_t)m->rank * sizeof m->dims[0]);
    memmove(m->strides, m->strides + 1, (size_t)m->rank * sizeof m->strides[0]);
    if (w->name != NULL) {
        dt__set_name(m, dt__text(w->ctx, "%s.%lld", w->name, (long long)i));
        if (m->name == NULL) return DT_ERR_NOMEM;
    }
    return w->kind == NULL ? DT_OK : w->kind->expert(w, i, m);
}

dt_tensor *dt_grouped_expert(dt_tensor *w, int64_t i)
{
    if (w == NULL) return NULL;
    dt_tensor *m = NULL;
    if (check_expert(w, i) != DT_OK) return NULL;
    if (take_expert(w, i, &m) == DT_OK) return m;
    dt_tensor_free(m);
    return NULL;
}
