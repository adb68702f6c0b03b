/* An ONNX file as a module, by the interpreter of interpret.h. */
#include "core/tensor.h"
#include "export/verify/exported.h"
#include "io/onnx/interpret/interpret_graph.h"

#include <string.h>

static const char *property(const dt__verify *v, const char *key)
{
    const DtOnnx__Model *m = v->file.model;
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        if (strcmp(m->metadata_props[i]->key, key) == 0) return m->metadata_props[i]->value;
    }
    return NULL;
}

static dt_status open_file(dt__exported *e, const char *path)
{
    dt__verify *v;
    DT__TRY(dt__verify_open(e->ctx, path, NULL, &v));
    e->file = v;
    e->data = property(v, "detent.data");
    if (dt__verify_inputs(v) == 1 && dt__verify_outputs(v) == 1 &&
        dt__verify_input_type(v, 0) == DT__VERIFY_F32) {
        return DT_OK;
    }
    return dt_fail(e->ctx, DT_ERR_UNSUPPORTED,
                   "%s: %lld input%s and %lld output%s; a file with one input of floats and one "
                   "output is run on data",
                   e->path, (long long)dt__verify_inputs(v), DT__S(dt__verify_inputs(v)),
                   (long long)dt__verify_outputs(v), DT__S(dt__verify_outputs(v)));
}

/* Runs examples first ... first + n - 1 of x; creates *y with the first result. */
static dt_status run_some(dt__exported *e, const dt_tensor *x, bool flat, int64_t first, int64_t n,
                          dt_tensor **y)
{
    dt__verify *v = e->file;
    const int64_t each = x->count / x->dims[0];
    dt__verify_named in = { .name = dt__verify_input_name(v, 0),
                            .value = {
                                .type = DT__VERIFY_F32, .rank = x->rank, .count = n * each } };
    memcpy(in.value.dims, x->dims, (size_t)x->rank * sizeof x->dims[0]);
    in.value.dims[0] = n;
    if (flat) in.value.rank = 2;
    if (flat) in.value.dims[1] = each;
    in.value.data = (void *)(uintptr_t)((const float *)dt_data(x) + first * each);
    DT__TRY(dt__verify_run(v, &in, 1));
    const dt__verify_value *r = dt__verify_output(v, 0);
    if (r->type != DT__VERIFY_F32 || r->rank < 1 || r->dims[0] != n) {
        return dt_fail(e->ctx, DT_ERR_FORMAT, "%s: its output is not [%lld, ...] of floats",
                       e->path, (long long)n);
    }
    if (*y == NULL) {
        DT__TRY(dt__exported_result(e, x->dims[0], r->rank - 1, r->dims + 1, false, y));
    }
    if (r->count / n != (*y)->count / x->dims[0]) {
        return dt_fail(e->ctx, DT_ERR_FORMAT, "%s: its output has other extents for each example",
                       e->path);
    }
    memcpy((float *)dt_data_mut(*y) + first * (r->count / n), r->data,
           (size_t)r->count * sizeof(float));
    return DT_OK;
}

/* The extents that the file declares for its input, with `n` for a symbol; false: none. */
static bool declared_dims(const dt__verify *v, int64_t n, dt__verify_value *out)
{
    const DtOnnx__Type *type = v->input[0]->type;
    const DtOnnx__TensorType *tensor = type == NULL ? NULL : type->tensor_type;
    if (tensor == NULL || tensor->shape == NULL || tensor->shape->n_dim < 1 ||
        tensor->shape->n_dim > DT_MAX_RANK) {
        return false;
    }
    out->rank = (int)tensor->shape->n_dim;
    for (int d = 0; d < out->rank; d++) {
        const DtOnnx__Dimension *dim = tensor->shape->dim[d];
        out->dims[d] = dim->dim_value > 0 ? dim->dim_value : n;
    }
    return true;
}

/* If the file has a fixed batch size, examples are run in batches of that size. */
static dt_status run(dt__exported *e, const dt_tensor *x, dt_tensor **y)
{
    dt__verify_value declared;
    const int64_t n = x->dims[0];
    int64_t step = n;
    bool flat = false;
    if (declared_dims(e->file, n, &declared)) {
        const size_t bytes = (size_t)(x->rank - 1) * sizeof *x->dims;
        flat = dt__exported_flat(x, declared.rank - 1, declared.dims + 1);
        const bool same =
            declared.rank == x->rank && memcmp(declared.dims + 1, x->dims + 1, bytes) == 0;
        if (!flat && !same) {
            return dt__exported_misfit(e, x, declared.rank - 1, declared.dims + 1);
        }
        if (declared.dims[0] == 1) step = 1;
    }
    for (int64_t i = 0; i < n; i += step) DT__TRY(run_some(e, x, flat, i, step, y));
    return DT_OK;
}

static void close_file(dt__exported *e) { dt__verify_close(e->file); }

const dt__exported_kind dt__exported_onnx = { open_file, run, close_file };
