/* Inputs and attributes of a node while it runs. */
#include "core/text/json.h"
#include "io/onnx/interpret/interpret.h"

#include <string.h>

const dt__verify_value *dt__verify_in(const dt__verify_call *c, int64_t i)
{
    return i < c->n_in ? c->in[i] : NULL;
}

dt_status dt__verify_choice(const dt__verify_call *c, const char *name, const char *const *choices,
                            int *out)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(c->node, name);
    char text[32], shown[DT__SHOWN];
    *out = 0;
    if (a == NULL) return DT_OK;
    const size_t n = a->s.len < sizeof text ? a->s.len : sizeof text - 1;
    if (n > 0) memcpy(text, a->s.data, n);
    text[n] = 0;
    while (choices[*out] != NULL && strcmp(choices[*out], text) != 0) ++*out;
    if (choices[*out] != NULL) return DT_OK;
    return dt__verify_refuse(c, "%s '%s' is not known here", name, dt__shown(text, shown));
}

dt_status dt__verify_attribute_list(const dt__verify_call *c, const char *name,
                                    dt__verify_list *out)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(c->node, name);
    out->n = -1;
    if (a == NULL) return DT_OK;
    if (a->n_ints > DT__VERIFY_LIST) {
        return dt__verify_refuse(c, "%s has %zu numbers; %d are the most", name, a->n_ints,
                                 DT__VERIFY_LIST);
    }
    out->n = (int)a->n_ints;
    for (int i = 0; i < out->n; i++) out->v[i] = a->ints[i];
    return DT_OK;
}

dt_status dt__verify_input_list(const dt__verify_call *c, int64_t input, dt__verify_list *out)
{
    const dt__verify_value *x = dt__verify_in(c, input);
    out->n = -1;
    if (x == NULL) return DT_OK;
    if ((DT__VERIFY_INDICES >> x->type & 1) == 0 || x->rank > 1 || x->count > DT__VERIFY_LIST) {
        return dt__verify_refuse(c, "input %lld is not a vector of at most %d integers",
                                 (long long)input, DT__VERIFY_LIST);
    }
    out->n = (int)x->count;
    dt__verify_load_whole(x, 0, 1, x->count, out->v);
    return DT_OK;
}

dt_status dt__verify_axis(const dt__verify_call *c, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank) {
        return dt__verify_refuse(c, "axis %lld of a value of %d dimensions; expected %d to %d",
                                 (long long)axis, rank, -rank, rank - 1);
    }
    *out = (int)(axis < 0 ? axis + rank : axis);
    return DT_OK;
}

dt_status dt__verify_axes(const dt__verify_call *c, const dt__verify_list *axes, int rank,
                          bool set[DT_MAX_RANK])
{
    for (int d = 0; d < DT_MAX_RANK; d++) set[d] = false;
    for (int i = 0; i < axes->n; i++) {
        int d = 0;
        DT__TRY(dt__verify_axis(c, axes->v[i], rank, &d));
        if (set[d]) return dt__verify_refuse(c, "axis %d is named twice", d);
        set[d] = true;
    }
    return DT_OK;
}

dt_status dt__verify_input_int(const dt__verify_call *c, int64_t input, int64_t *out)
{
    const dt__verify_value *x = dt__verify_in(c, input);
    if (x == NULL || (DT__VERIFY_INDICES >> x->type & 1) == 0 || x->count != 1) {
        return dt__verify_refuse(c, "input %lld is not one integer", (long long)input);
    }
    *out = dt__verify_whole_at(x, 0);
    return DT_OK;
}
