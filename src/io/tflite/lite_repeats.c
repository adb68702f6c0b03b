/* Repeats rows and columns of an image: RESIZE_NEAREST_NEIGHBOR, and Keras' UpSampling2D, which is
 * EXPAND_DIMS, TILE and RESHAPE for rows, then for columns. */
#include "io/tflite/lite_layers.h"

#include <math.h>

static dt_status put_larger(dt__lite_import *m, const dt__vlite_op *o, int from, int64_t factor)
{
    dt__onnx_layer *l;
    const dt__lite_place x = m->place[from];
    DT__TRY(dt__onnx_new(m->g, "upsample_nearest", &l));
    ((dt_upsample_layer *)l->options)->factor = factor;
    dt__onnx_read_from(l, x.layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put(m, o, l, x.source, &dt__lite_image);
}

/* ---- RESIZE_NEAREST_NEIGHBOR ----------------------------------------------------------------- */

/* The integer factor by which an extent grows; 0: none, or LiteRT's f32 arithmetic selects other
 * pixels. */
static int64_t times_larger(int64_t in, int64_t out, bool half)
{
    if (in < 1 || out < 1 || out % in != 0) return 0;
    const float step = (float)in / (float)out;
    for (int64_t i = 0; i < out; i++) {
        const int64_t from = (int64_t)floorf(((float)i + (half ? 0.5f : 0)) * step);
        if (from != i / (out / in)) return 0;
    }
    return out / in;
}

dt_status dt__lite_read_nearest(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__onnx_layer *x;
    const dt__vlite_tensor *size;
    DT__TRY(dt__lite_image_of(m, o, 0, &x));
    DT__TRY(dt__lite_constant_of(m, o, 1, &size));
    const bool known = size->type == DT__VLITE_I32 && size->count == 2 && o->option[0] == 0;
    int64_t factor[2] = { 0 };
    for (int i = 0; i < 2 && known; i++) {
        factor[i] = times_larger(x->shape.dims[1 + i], size->q[i], o->option[1] != 0);
    }
    if (factor[0] >= 1 && factor[0] == factor[1]) return put_larger(m, o, o->in[0], factor[0]);
    return dt__onnx_refuse(m->g, "it does not repeat rows and columns the same number of times");
}

/* ---- EXPAND_DIMS, TILE, RESHAPE -------------------------------------------------------------- */

typedef struct repeat {
    int from; /* the tensor that is repeated */
    int axis; /* 1 or 2 */
    int64_t times;
} repeat;

static const dt__vlite_op *maker(const dt__lite_import *m, int tensor, int code, int inputs)
{
    const dt__vlite_op *o = dt__lite_maker_of(m, tensor);
    return o != NULL && o->code == code && o->n_in >= inputs ? o : NULL;
}

/* The constant axis in a tensor, counted from the front of `rank` dimensions; -1: none. */
static int axis_of(const dt__vlite_tensor *t, int rank)
{
    if (t == NULL || !t->constant || t->type != DT__VLITE_I32 || t->count != 1) return -1;
    const int64_t axis = t->q[0] < 0 ? t->q[0] + rank : t->q[0];
    return axis < 0 || axis >= rank ? -1 : (int)axis;
}

/* How often TILE repeats dimension `axis`; 0: it repeats others. */
static int64_t tiles(const dt__vlite_tensor *t, int axis)
{
    if (t == NULL || !t->constant || t->type != DT__VLITE_I32 || t->count != 5) return 0;
    for (int d = 0; d < 5; d++) {
        if (t->q[d] < 1 || (d != axis && t->q[d] != 1)) return 0;
    }
    return t->q[axis];
}

/* Finds the three operators that compute `tensor` by repeating another one. */
static bool repeat_of(const dt__lite_import *m, int tensor, repeat *out)
{
    const dt__vlite_op *shape = maker(m, tensor, DT__VLITE_RESHAPE, 1);
    const dt__vlite_op *tile = shape == NULL ? NULL : maker(m, shape->in[0], DT__VLITE_TILE, 2);
    const dt__vlite_op *expand =
        tile == NULL ? NULL : maker(m, tile->in[0], DT__VLITE_EXPAND_DIMS, 2);
    if (expand == NULL) return false;
    const int axis = axis_of(dt__lite_tensor_of(m, expand->in[1]), 5);
    if (axis != 2 && axis != 3) return false;
    *out = (repeat){ expand->in[0], axis - 1, tiles(dt__lite_tensor_of(m, tile->in[1]), axis) };
    return out->times > 0;
}

/* Whether a RESHAPE makes an image of these extents; one of them may be undeclared in the file. */
static bool is_image(const dt__vlite_tensor *y, const int64_t dims[4])
{
    int open = 0;
    if (y == NULL || y->rank != 4) return false;
    for (int d = 1; d < 4; d++) {
        if (y->dims[d] == dims[d]) continue;
        if (!y->vague || y->dims[d] != 1 || open++ > 0) return false;
    }
    return true;
}

/* The image whose rows and columns a tensor repeats *factor times each; -1: none. */
static int repeated(const dt__lite_import *m, int tensor, int64_t *factor)
{
    repeat first, last;
    if (!repeat_of(m, tensor, &last) || !repeat_of(m, last.from, &first)) return -1;
    if (first.axis == last.axis || first.times != last.times) return -1;
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, first.from);
    const dt__lite_place *p = &m->place[first.from];
    if (x == NULL || x->rank != 4 || p->layer == NULL || p->axis[1] != 2) return -1;
    const int64_t *own = p->layer->shape.dims;
    int64_t dims[] = { 1, own[1], own[2], own[0] };
    dims[first.axis] *= first.times;
    if (!is_image(dt__lite_tensor_of(m, last.from), dims)) return -1;
    dims[last.axis] *= last.times;
    *factor = last.times;
    return is_image(dt__lite_tensor_of(m, tensor), dims) ? first.from : -1;
}

/* The operators before the last one make no results here; other operators that read them are
 * refused. */
bool dt__lite_read_repeat(dt__lite_import *m, const dt__vlite_op *o, dt_status *s)
{
    repeat part;
    int64_t factor;
    const int from = repeated(m, o->out[0], &factor);
    *s = from < 0 ? DT_OK : put_larger(m, o, from, factor);
    return from >= 0 || dt__lite_tensor_of(m, o->out[0])->rank == 5 ||
           repeat_of(m, o->out[0], &part);
}

dt_status dt__lite_read_tile(dt__lite_import *m, const dt__vlite_op *o)
{
    const dt__vlite_tensor *y = dt__lite_tensor_of(m, o->out[0]);
    if (y->rank == 5 && maker(m, o->in[0], DT__VLITE_EXPAND_DIMS, 2) != NULL) return DT_OK;
    return dt__onnx_refuse(m->g, "it is not a part of repeating the rows and columns of an image");
}
