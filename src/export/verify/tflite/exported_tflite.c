/* A TFLite file as a module, by the interpreter of lite.h, one example at a time. Images, and other
 * examples of several dimensions, may have channels last in the file; if extents are ambiguous,
 * channels last is assumed. */
#include "core/tensor.h"
#include "data/file_map.h"
#include "export/verify/exported.h"
#include "io/tflite/lite.h"

#include <sys/mman.h>

typedef struct mapped {
    void *map;
    size_t bytes;
    dt__vlite *v;
    float *turned; /* an example in the file's order */
    char *data;
} mapped;

static bool is_number(const dt__vlite_tensor *t)
{
    return t->rank > 0 && (t->type == DT__VLITE_F32 || dt__vlite_is_coded(t));
}

static dt_status open_file(dt__exported *e, const char *path)
{
    mapped *f = dt__alloc_zero(e->ctx, sizeof *f);
    if (f == NULL) return DT_ERR_NOMEM;
    e->file = f;
    DT__TRY(dt__map_file(e->ctx, path, &f->map, &f->bytes));
    if (f->map == NULL) {
        return dt_fail(e->ctx, DT_ERR_FORMAT, "%s: not a TFLite model: it is empty", e->path);
    }
    DT__TRY(dt__vlite_open(e->ctx, e->path, &(dt__span){ f->map, f->bytes }, NULL, &f->v));
    const int in = dt__vlite_inputs(f->v), out = dt__vlite_outputs(f->v);
    if (in != 1 || out != 1 || !is_number(dt__vlite_input(f->v, 0)) ||
        !is_number(dt__vlite_output(f->v, 0))) {
        return dt_fail(e->ctx, DT_ERR_UNSUPPORTED,
                       "%s: %d input%s and %d output%s; a file with one input and one output, of "
                       "floats or of int8 with one scale, is run on data",
                       e->path, in, DT__S(in), out, DT__S(out));
    }
    const int64_t n = dt__vlite_input(f->v, 0)->count;
    f->turned = dt__alloc_array(e->ctx, n, sizeof *f->turned);
    if (f->turned == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__vlite_property(f->v, "detent.data", &f->data));
    e->data = f->data;
    return DT_OK;
}

static dt_status run_example(dt__exported *e, const dt_tensor *x, int64_t i, bool last,
                             dt_tensor **y)
{
    mapped *f = e->file;
    const dt__vlite_tensor *in = dt__vlite_input(f->v, 0), *out = dt__vlite_output(f->v, 0);
    const float *from = (const float *)dt_data(x) + i * in->count;
    if (last) {
        dt__exported_turn(from, 1, x->dims[1], in->count / dt__max_i64(1, x->dims[1]), false,
                          f->turned);
        from = f->turned;
    }
    DT__TRY(dt__vlite_give_floats(f->v, 0, from));
    DT__TRY(dt__vlite_run(f->v));
    const bool turned = last && out->rank > 2;
    if (*y == NULL) {
        DT__TRY(dt__exported_result(e, x->dims[0], out->rank - 1, out->dims + 1, turned, y));
    }
    float *value = dt__alloc_array(e->ctx, out->count, sizeof *value);
    if (value == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < out->count; k++) value[k] = dt__vlite_float(out, k);
    const int64_t channels = turned ? dt__max_i64(1, out->dims[out->rank - 1]) : 1;
    dt__exported_turn(value, 1, channels, out->count / channels, true,
                      (float *)dt_data_mut(*y) + i * out->count);
    dt__release(e->ctx, value);
    return DT_OK;
}

static dt_status run(dt__exported *e, const dt_tensor *x, dt_tensor **y)
{
    mapped *f = e->file;
    const dt__vlite_tensor *in = dt__vlite_input(f->v, 0);
    const bool last = dt__exported_last(x, in->rank - 1, in->dims + 1);
    bool plain = x->rank == in->rank && in->dims[0] == 1;
    for (int d = 1; d < x->rank && plain; d++) plain = x->dims[d] == in->dims[d];
    plain = plain || dt__exported_flat(x, in->rank - 1, in->dims + 1);
    if (in->dims[0] != 1 || (!last && !plain)) {
        return dt__exported_misfit(e, x, in->rank - 1, in->dims + 1);
    }
    for (int64_t i = 0; i < x->dims[0]; i++) DT__TRY(run_example(e, x, i, last, y));
    return DT_OK;
}

static void close_file(dt__exported *e)
{
    mapped *f = e->file;
    if (f == NULL) return;
    dt__vlite_close(f->v);
    if (f->map != NULL) munmap(f->map, f->bytes);
    DT__RELEASE(e->ctx, f->turned, f->data, f);
}

const dt__exported_kind dt__exported_tflite = { open_file, run, close_file };
