/* Grouped parameters: one tensor [count, dims...] that stands for count members [dims...]. A flag on the
 * handle says so; every handle on the same storage and shape has it (dt__view). */
#include "autograd/kind.h"

static dt_status check_can_be_grouped(const dt_tensor *x)
{
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
                       "grouped: [members, dims...] without gaps is wanted, at least one member "
                       "and one dimension; x is %s%s",
                       dt__dims_text(x->rank, x->dims, text, sizeof text),
                       dt_is_contiguous(x) ? "" : ", strided");
    }
    return DT_OK;
}

dt_status dt_set_grouped(dt_tensor *x)
{
    if (x->grouped) return DT_OK;
    DT__TRY(check_can_be_grouped(x));
    x->grouped = true;
    return DT_OK;
}

bool dt_is_grouped(const dt_tensor *x) { return x->grouped; }

int64_t dt_grouped_count(const dt_tensor *x) { return x->grouped ? x->dims[0] : 0; }

static dt_status want_grouped(const dt_tensor *x, const char *who)
{
    char text[192];
    if (x->grouped) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_STATE, "%s: x is no grouped parameter but %s", who,
                   dt__shape_text(x, true, text, sizeof text));
}

int dt_grouped_shard_axis(const dt_tensor *w, int axis)
{
    if (want_grouped(w, "grouped_shard_axis") != DT_OK) return -1;
    const int rank = w->rank - 1, from_start = axis < 0 ? axis + rank : axis;
    if (from_start >= 0 && from_start < rank) return from_start + 1;
    dt_fail(w->ctx, DT_ERR_ARG, "grouped_shard_axis: a member has axes %d...%d, not %d", -rank,
            rank - 1, axis);
    return -1;
}
