/* Makes a tensor of a folder that is several of the model's tensors, or a transposed one
 * (hf_names.c). */
#include "core/tensor.h"
#include "io/hf/hf.h"
#include "io/hf/hf_names.h"
#include "nn/module.h"

/* The values of a parameter, which the caller frees. */
static dt_status dense_of(dt_tensor *x, bool dequantize, dt_tensor **out)
{
    if (x->kind == NULL) return dt__view(x->ctx, x, out);
    if (dt_is_packed(x) || dequantize) return dt_dequantize(x, out);
    return dt__view(x->ctx, dt_inner(x), out);
}

static dt_status shape_of(dt_module *m, const dt__hf_row *r, const char *path, int64_t dims[2])
{
    dt_ctx *ctx = dt_module_ctx(m);
    int64_t rows = 0;
    for (int i = 0; i < dt__hf_row_parts(r); i++) {
        char name[DT__SHOWN];
        dt__hf_part_name(r, i, path, 0, name);
        const dt_tensor *x = dt_param(m, name);
        if (x == NULL || x->dtype != DT_F32 || x->rank < 1 || x->rank > 2) {
            return dt_fail(ctx, DT_ERR_STATE, "hf: '%s' is missing, or no f32 matrix", name);
        }
        rows += x->dims[0];
        dims[1] = x->rank == 2 ? x->dims[1] : 0;
    }
    dims[0] = rows;
    return DT_OK;
}

/* Where the rows of a part go: `each` rows from `first` on, then `each` rows at first + apart, and
 * so on. */
typedef struct place {
    int64_t first, each, apart;
} place;

/* Copies x to its rows of the joined tensor, [rows, columns] or, transposed, [columns, rows]. */
static void put_rows(const dt_tensor *x, const place *at, bool turned, const int64_t dims[2],
                     float *to)
{
    const float *from = dt__values(x);
    const int64_t columns = x->rank == 2 ? x->dims[1] : 1;
    for (int64_t r = 0; r < x->dims[0]; r++) {
        const int64_t row = at->first + r / at->each * at->apart + r % at->each;
        for (int64_t c = 0; c < columns; c++) {
            to[turned ? c * dims[0] + row : row * columns + c] = from[r * columns + c];
        }
    }
}

static place place_of(const dt__hf_joined *j, const dt_tensor *x, int part, int64_t first)
{
    const int64_t rows = dt__max_i64(1, x->dims[0]);
    if (!j->row->by_head || rows % j->heads != 0) return (place){ first, rows, rows };
    const int64_t each = rows / j->heads;
    return (place){ part * each, each, dt__hf_row_parts(j->row) * each };
}

dt_status dt__hf_join(dt_module *m, const dt__hf_joined *j, dt_tensor **out)
{
    int64_t dims[2], first = 0;
    *out = NULL;
    DT__TRY(shape_of(m, j->row, j->path, dims));
    const int rank = dims[1] > 0 ? 2 : 1;
    const bool turned = j->row->turned && rank == 2;
    const int64_t turned_dims[] = { dims[1], dims[0] };
    DT__TRY(dt_tensor_create(dt_module_ctx(m), DT_F32, rank, turned ? turned_dims : dims, out));
    dt_status s = DT_OK;
    for (int i = 0; i < dt__hf_row_parts(j->row) && s == DT_OK; i++) {
        char name[DT__SHOWN];
        dt_tensor *x = NULL;
        dt__hf_part_name(j->row, i, j->path, 0, name);
        s = dense_of(dt_param(m, name), j->dequantize, &x);
        if (s != DT_OK) break;
        const place at = place_of(j, x, i, first);
        put_rows(x, &at, turned, dims, dt_data_mut(*out));
        first += x->dims[0];
        dt_tensor_free(x);
    }
    if (s == DT_OK) return DT_OK;
    dt_tensor_free(*out);
    *out = NULL;
    return s;
}
