/* Resize and Upsample: interpolation along one axis after the other. Output o of an axis has the
 * coordinate x(o) in the input; it is a weighted sum of the elements around it:
 *     nearest   one, chosen by nearest_mode
 *     linear    two, with 1 - r and r, for r = x - floor(x)
 *     cubic     four, with the cubic kernel of Keys (1981) and its coefficient a
 * and, with antialias, more of them where the axis shrinks. Elements past an end are the last
 * element, or are left out (exclude_outside). So each axis is a layer mix, or a selection of
 * elements. */
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

#define MOST_TAPS 4096  /* elements in a weighted sum */
#define MOST_SIZE 65536 /* of an axis */
/* programs compute coordinates in float, so they may round ties to either side */
#define NEAR_TIE 1e-4

enum { NEAREST, LINEAR, CUBIC };
enum { HALF, SYMMETRIC, PYTORCH, ALIGN, ASYMMETRIC, CROP, TF_NEAREST, WAYS };
enum { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL };

/* Attributes of the node. */
typedef struct resizing {
    int mode, way, rounding;
    bool antialias, exclude;
    double cubic, extrapolation;
} resizing;

/* One axis: y(o) of n_out elements from x(i) of n_in. */
typedef struct resized_axis {
    int64_t n_in, n_out;
    double scale, roi[2];
} resized_axis;

/* ---- attributes ------------------------------------------------------------------------------ */

static int choice(const dt__onnx *g, const char *name, const char *const *words, int n)
{
    int i = 0;
    while (i < n - 1 && !dt__onnx_says(g, name, words[i], words[0])) i++;
    return i;
}

static dt_status read_attributes(dt__onnx *g, resizing *r)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const ways[] = { "half_pixel",          "half_pixel_symmetric",
                                        "pytorch_half_pixel",  "align_corners",
                                        "asymmetric",          "tf_crop_and_resize",
                                        "tf_half_pixel_for_nn" };
    static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil" };
    const bool old = strcmp(g->node->op_type, "Upsample") == 0 || g->file->opset < 11;
    *r = (resizing){ .mode = choice(g, "mode", modes, 3), .way = ASYMMETRIC, .rounding = FLOOR };
    if (old) return DT_OK;
    r->way = choice(g, "coordinate_transformation_mode", ways, WAYS);
    r->rounding = choice(g, "nearest_mode", roundings, 4);
    r->antialias = dt__onnx_int_of(g->node, "antialias", 0) != 0;
    r->exclude = dt__onnx_int_of(g->node, "exclude_outside", 0) != 0;
    r->cubic = dt__onnx_real_attribute(g->node, "cubic_coeff_a", -0.75);
    r->extrapolation = dt__onnx_real_attribute(g->node, "extrapolation_value", 0);
    if (r->antialias && r->mode == NEAREST)
        return dt__onnx_refuse(g, "it is antialiased with mode nearest; expected linear or cubic");
    if (r->exclude && r->mode != CUBIC) {
        return dt__onnx_refuse(g, "exclude_outside is known with mode cubic alone");
    }
    if (isfinite(r->cubic) && isfinite(r->extrapolation)) return DT_OK;
    return dt__onnx_refuse(g, "cubic_coeff_a or extrapolation_value is not finite");
}

/* ---- extents --------------------------------------------------------------------------------- */

static const dt__onnx_value *given(dt__onnx *g, int i)
{
    const dt__onnx_value *v = dt__onnx_in(g, i);
    return v != NULL && v->kind == DT__ONNX_CONSTANT && v->count == 0 ? NULL : v;
}

/* The extent of an axis from its scale; programs multiply in float or in double, so both must
 * agree. */
static dt_status by_scale(dt__onnx *g, const dt__onnx_number *n, resized_axis *a)
{
    a->scale = n->value;
    const double size = floor((double)a->n_in * a->scale);
    const float narrow = floorf((float)a->n_in * (float)a->scale);
    if (n->batch || !(a->scale > 0) || !(size >= 1 && size <= MOST_SIZE) ||
        size != (double)narrow) {
        return dt__onnx_refuse(g, "%lld elements by %g: no clear number of elements from 1 to %d",
                               (long long)a->n_in, a->scale, MOST_SIZE);
    }
    a->n_out = (int64_t)size;
    return DT_OK;
}

static dt_status by_size(dt__onnx *g, const dt__onnx_number *n, resized_axis *a)
{
    if (n->batch || n->value != floor(n->value) || !(n->value >= 1 && n->value <= MOST_SIZE)) {
        return dt__onnx_refuse(g, "a dimension would have %g elements; expected 1 to %d", n->value,
                               MOST_SIZE);
    }
    a->n_out = (int64_t)n->value;
    a->scale = (double)a->n_out / (double)a->n_in;
    return DT_OK;
}

/* Uses one scale for all axes, so that no extent is larger (or smaller) than its given size. */
static dt_status keep_aspect(dt__onnx *g, const int *axis, int n, resized_axis *all)
{
    const bool larger = dt__onnx_says(g, "keep_aspect_ratio_policy", "not_larger", "stretch");
    double scale = larger ? INFINITY : 0;
    for (int i = 0; i < n; i++) {
        const double own = all[axis[i]].scale;
        if (axis[i] == 0)
            return dt__onnx_refuse(
                g, "it keeps the ratio of the batch and other dimensions; expected others alone");
        scale = larger ? fmin(scale, own) : fmax(scale, own);
    }
    for (int i = 0; i < n; i++) {
        resized_axis *a = &all[axis[i]];
        const double size = floor(scale * (double)a->n_in + 0.5);
        if (!(size >= 1 && size <= MOST_SIZE))
            return dt__onnx_refuse(g, "a dimension would have %g elements; expected 1 or more",
                                   size);
        a->n_out = (int64_t)size;
        a->scale = scale;
    }
    return DT_OK;
}

/* Reads the resized axes of v and their new extents. */
static dt_status read_extents(dt__onnx *g, const dt__onnx_value *v, bool crops, resized_axis *all)
{
    const bool old = strcmp(g->node->op_type, "Upsample") == 0 || g->file->opset < 11;
    const dt__onnx_value *scales = given(g, old ? 1 : 2), *sizes = old ? NULL : given(g, 3);
    const dt__onnx_value *roi = crops ? given(g, 1) : NULL, *by = sizes != NULL ? sizes : scales;
    int axis[DT_MAX_RANK];
    bool seen[DT_MAX_RANK] = { false }, negative = false;
    dt_ints axes;
    DT__TRY(dt__onnx_list(g, "axes", &axes));
    const int n = axes.n > 0 ? axes.n : v->rank - g->front;
    if (by == NULL || (scales != NULL && sizes != NULL) || by->kind != DT__ONNX_CONSTANT ||
        by->count != n || (crops && (roi == NULL || roi->count != 2 * n))) {
        return dt__onnx_refuse(g, "expected one constant scale or size for each of %d dimensions%s",
                               n, crops ? ", and roi" : "");
    }
    for (int i = 0; i < n; i++) {
        const dt__onnx_number x = dt__onnx_number_at(by, i);
        DT__TRY(dt__onnx_new_axis(g, axes.n > 0 ? axes.v[i] : i, v->rank, seen, &axis[i]));
        negative |= axes.n > 0 && axes.v[i] < 0;
        resized_axis *a = &all[axis[i]];
        if (v->axis[axis[i]] == 0) {
            const bool own = sizes == NULL ? x.value == 1 : x.batch || x.value == (double)g->batch;
            if (!own) return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
            continue;
        }
        DT__TRY(sizes != NULL ? by_size(g, &x, a) : by_scale(g, &x, a));
        for (int k = 0; k < 2 && crops; k++) a->roi[k] = dt__onnx_number_at(roi, i + k * n).value;
    }
    if (sizes == NULL || dt__onnx_says(g, "keep_aspect_ratio_policy", "stretch", "stretch")) {
        return DT_OK;
    }
    if (negative) {
        return dt__onnx_refuse(g, "it keeps the ratio along axes below 0, which onnxruntime does "
                                  "not; expected others");
    }
    return keep_aspect(g, axis, n, all);
}

/* ---- coordinates ----------------------------------------------------------------------------- */

/* Whether an axis is unchanged: programs skip it, whatever its coordinates. */
static bool stays(const resized_axis *a)
{
    return a->n_in == a->n_out && fabs(a->scale - 1) < 1e-9 && a->roi[0] == 0 && a->roi[1] == 1;
}

/* Whether programs agree on the coordinates even if n_in * scale is not an integer. */
static bool is_clear(const resizing *r, const resized_axis *a)
{
    const bool whole = fabs((double)a->n_in * a->scale - (double)a->n_out) < 1e-6;
    const bool one = r->way == PYTORCH && r->mode == CUBIC && a->n_out == 1;
    return (whole || (r->way != ALIGN && r->way != CROP)) && !one;
}

/* The input coordinate of output o. */
static double coordinate(const resizing *r, const resized_axis *a, int64_t o)
{
    const double n = (double)a->n_in, out = (double)a->n_out, at = (double)o;
    const double half = (at + 0.5) / a->scale - 0.5, ends = a->roi[1] - a->roi[0];
    switch (r->way) {
    case SYMMETRIC: return n / 2 * (1 - out / (n * a->scale)) + half;
    case PYTORCH: return a->n_out == 1 ? 0 : half;
    case ALIGN: return a->n_out == 1 ? 0 : at * (n - 1) / (out - 1);
    case ASYMMETRIC: return at / a->scale;
    case TF_NEAREST: return (at + 0.5) / a->scale; /* of versions 11 and 12, and tf2onnx */
    case CROP:
        return a->roi[0] * (n - 1) +
               (a->n_out == 1 ? ends * (n - 1) / 2 : at * ends * (n - 1) / (out - 1));
    default: return half;
    }
}

static int64_t clamped(const resized_axis *a, double i)
{
    return i < 0 ? 0 : i > (double)(a->n_in - 1) ? a->n_in - 1 : (int64_t)i;
}

/* The element to which a coordinate is rounded. */
static dt_status nearest(dt__onnx *g, const resizing *r, const resized_axis *a, double x,
                         int64_t *out)
{
    const double down = floor(x), rest = x - down;
    const bool middle = r->rounding == PREFER_FLOOR || r->rounding == PREFER_CEIL;
    const double apart = middle ? fabs(rest - 0.5) : fmin(rest, 1 - rest);
    if (apart > 0 && apart < NEAR_TIE * (1 + fabs(x)) && x > 0 && x < (double)a->n_in - 1) {
        return dt__onnx_refuse(
            g, "coordinate %.9g is so near to a tie that programs round it apart", x);
    }
    const bool up = r->rounding == PREFER_FLOOR  ? rest > 0.5
                    : r->rounding == PREFER_CEIL ? rest >= 0.5
                                                 : r->rounding == CEIL && rest > 0;
    *out = clamped(a, down + up);
    return DT_OK;
}

/* The element that is output o. Near ties are refused, as float scales may round them to either
 * side. */
static dt_status chosen(dt__onnx *g, const resizing *r, const resized_axis *a, int64_t o,
                        int64_t *out)
{
    int64_t other = 0;
    const resizing half = { .way = HALF };
    resized_axis rough = *a;
    rough.scale = (double)(float)a->scale;
    const double x = coordinate(r, a, o);
    const double y = r->way == SYMMETRIC
                         ? x + coordinate(&half, &rough, o) - coordinate(&half, a, o)
                         : (double)(float)coordinate(r, &rough, o);
    DT__TRY(nearest(g, r, a, x, out));
    DT__TRY(nearest(g, r, a, y, &other));
    if (other == *out) return DT_OK;
    return dt__onnx_refuse(g, "coordinate %.9g is a tie, which programs round apart", x);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static double kernel(const resizing *r, double x)
{
    const double a = r->cubic;
    x = fabs(x);
    if (r->mode == LINEAR) return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The weights of output o. Without antialias the kernel is not widened. */
static dt_status weigh(dt__onnx *g, const resizing *r, const resized_axis *a, double x, float *row)
{
    const double scale = r->antialias ? fmin(a->scale, 1) : 1, reach = r->mode == CUBIC ? 2 : 1;
    const double first = floor(x) + floor(-reach / scale) + 1, last = floor(x) + reach / scale + 1;
    double sum = 0;
    if (!(last - first <= MOST_TAPS)) return dt__onnx_refuse(g, "it shrinks by more than is read");
    for (int pass = 0; pass < 2; pass++) {
        for (double i = first; i <= last; i++) {
            const bool outside = i < 0 || i >= (double)a->n_in;
            const double k = r->exclude && outside ? 0 : kernel(r, (i - x) * scale);
            if (pass == 0) sum += k;
            else row[clamped(a, i)] += (float)(k / sum);
        }
        if (!(fabs(sum) > 1e-3)) return dt__onnx_refuse(g, "its weights cancel out");
    }
    return DT_OK;
}

static dt_status mix(dt__onnx *g, const resizing *r, const resized_axis *a, int dim,
                     dt__onnx_layer **l)
{
    const int64_t n = a->n_in * a->n_out;
    float *weight = dt__onnx_memory(g, n, sizeof *weight), *bias;
    bool filled = false;
    if (weight == NULL || (bias = dt__onnx_memory(g, a->n_out, sizeof *bias)) == NULL) {
        return DT_ERR_NOMEM;
    }
    memset(weight, 0, (size_t)n * sizeof *weight);
    for (int64_t o = 0; o < a->n_out; o++) {
        const double x = coordinate(r, a, o);
        float *row = weight + o * a->n_in;
        int64_t at = 0;
        bias[o] = 0;
        if (r->way == CROP && (x < 0 || x > (double)(a->n_in - 1))) {
            bias[o] = (float)r->extrapolation;
            filled |= bias[o] != 0;
            continue;
        }
        if (r->mode != NEAREST) DT__TRY(weigh(g, r, a, x, row));
        else DT__TRY(chosen(g, r, a, o, &at));
        if (r->mode == NEAREST) row[at] = 1;
    }
    DT__TRY(dt__onnx_mixed(g, *l, dim, a->n_out, weight, l));
    if (!filled) return DT_OK;
    dt__onnx_layer *from = *l;
    DT__TRY(dt__onnx_new(g, "affine", l));
    dt_affine_options *o = &((dt_affine_layer *)(*l)->options)->affine;
    o->scale = o->trained = false;
    o->shape.n = from->shape.rank - dim + 1;
    for (int i = 0; i < o->shape.n; i++) o->shape.v[i] = i == 0 ? a->n_out : 1;
    DT__TRY(dt__onnx_weigh_floats(g, *l, "bias", bias, a->n_out));
    dt__onnx_read_from(*l, from);
    return dt__onnx_add(g, *l);
}

/* The factor by which all elements of an axis are repeated; 0: another selection. */
static int64_t repeats(const int64_t *index, const resized_axis *a)
{
    const int64_t factor = a->n_out / a->n_in;
    for (int64_t o = 0; o < a->n_out; o++) {
        if (factor < 1 || index[o] != o / factor) return 0;
    }
    return a->n_out % a->n_in == 0 ? factor : 0;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Nearest element: layer upsample_nearest if all axes of an image are repeated by one factor, else
 * a selection of elements. */
static dt_status choose(dt__onnx *g, const resizing *r, const resized_axis *all, dt__onnx_layer **l)
{
    const int rank = (*l)->shape.rank;
    int64_t *index[DT_MAX_RANK] = { NULL }, factor = 0;
    bool image = (rank == 2 || rank == 3) && all[1].n_in == all[1].n_out;
    for (int dim = 1; dim <= rank; dim++) {
        const resized_axis *a = &all[dim];
        index[dim] = dt__onnx_memory(g, a->n_out, sizeof *index[dim]);
        if (index[dim] == NULL) return DT_ERR_NOMEM;
        for (int64_t o = 0; o < a->n_out; o++) {
            index[dim][o] = o;
            if (!stays(a)) DT__TRY(chosen(g, r, a, o, &index[dim][o]));
        }
        if (dim == 2) factor = repeats(index[2], a);
        image &= dim == 1 || (factor > 1 && factor <= 1024 && repeats(index[dim], a) == factor);
    }
    if (image) {
        dt__onnx_layer *from = *l;
        DT__TRY(dt__onnx_new(g, "upsample_nearest", l));
        ((dt_upsample_layer *)(*l)->options)->factor = factor;
        dt__onnx_read_from(*l, from);
        return dt__onnx_add(g, *l);
    }
    for (int dim = 1; dim <= rank; dim++) {
        if (all[dim].n_in == all[dim].n_out && repeats(index[dim], &all[dim]) == 1) continue;
        DT__TRY(dt__onnx_taken(g, *l, dim, index[dim], all[dim].n_out, l));
    }
    return DT_OK;
}

/* If no extent changes, onnxruntime copies all elements, whatever the scales and coordinates; with
 * antialias it does so for each unchanged dimension. Refuses nodes for which that differs. */
static dt_status check_moves(dt__onnx *g, const resizing *r, const resized_axis *all, int rank)
{
    bool moves = false, scales = false;
    for (int i = 1; i <= rank; i++) {
        moves |= all[i].n_in != all[i].n_out;
        scales |= all[i].n_in == all[i].n_out && !stays(&all[i]);
    }
    if (!scales || (moves && !r->antialias)) return DT_OK;
    return dt__onnx_refuse(g, "it scales without a change of extents, which programs compute in "
                              "several ways");
}

dt_status dt__onnx_resize(dt__onnx *g)
{
    resizing r;
    resized_axis all[DT_MAX_RANK];
    dt__onnx_layer *l;
    const bool old = g->file->opset == 10;
    DT__TRY(read_attributes(g, &r));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &l));
    const dt__onnx_value v = *dt__onnx_in(g, 0);
    for (int i = 0; i <= l->shape.rank; i++) {
        const int64_t n = i == 0 ? 1 : l->shape.dims[i - 1];
        all[i] = (resized_axis){ n, n, 1, { 0, 1 } };
    }
    DT__TRY(read_extents(g, &v, r.way == CROP, all));
    DT__TRY(check_moves(g, &r, all, l->shape.rank));
    for (int i = 1; i <= l->shape.rank; i++) {
        if (!is_clear(&r, &all[i]) || (old && r.mode == NEAREST && all[i].scale < 1)) {
            return dt__onnx_refuse(
                g, "dimension %d is scaled by %g, which programs compute in several ways", i,
                all[i].scale);
        }
    }
    if (r.mode == NEAREST && r.way != CROP) {
        DT__TRY(choose(g, &r, all, &l));
        dt__onnx_result(g, 0, l);
        return DT_OK;
    }
    for (int i = 1; i <= l->shape.rank; i++) {
        const resized_axis *a = &all[i];
        if (stays(a)) continue;
        if (a->n_in > MOST_SIZE)
            return dt__onnx_refuse(g, "it is over more than %d elements", MOST_SIZE);
        DT__TRY(mix(g, &r, a, i, &l));
    }
    dt__onnx_result(g, 0, l);
    return DT_OK;
}
