/* dt_export_verify: runs an exported file and its model with the same random inputs, and compares
 * the results. */
#include "core/system/atomic_file.h"
#include "core/text/json.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "core/tensor.h"
#include "export/trace/random_inputs.h"
#include "export/trace/trace.h"
#include "io/onnx/interpret/interpret.h"
#include "export/verify/tflite/verify_tflite.h"
#include "nn/lists/graph.h"
#include "nn/module.h"
#include "ptq/positions.h"

#include <detent/experimental/ops.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef struct verification {
    dt_ctx *ctx;
    dt_module *m;
    const char *path; /* the end of the path */
    dt__verify *file;
    int64_t output[DT_MAX_OUT]; /* index in the file of each output of the model */
    dt_trace_input in[DT_MAX_IN];
    int n_in, n_out;
    dt_tensor *x[DT_MAX_IN];
    dt__verify_named *given; /* the file's inputs; their data are in tensors of `wide` or `x` */
    int64_t n_given;
    float none;                 /* data of inputs without elements */
    dt_tensor *wide[DT_MAX_IN]; /* token ids as int64 or int32, if the file needs them */
    double products;            /* multiply-adds of the batch */
    dt_tape *tape;
    dt_tensor *y[DT_MAX_OUT];
} verification;

/* Sets input i of the file; token ids may be int64 there. */
static dt_status give(verification *v, int i)
{
    const dt__verify_type type = dt__verify_input_type(v->file, i);
    dt_tensor *x = v->x[i];
    if (x->dtype == DT_I32 && type == DT__VERIFY_I64) {
        DT__TRY(dt_tensor_create(v->ctx, DT_I64, x->rank, x->dims, &v->wide[i]));
        const int32_t *from = dt_data(x);
        int64_t *to = dt_data_mut(v->wide[i]);
        for (int64_t k = 0; k < x->count; k++) to[k] = from[k];
        x = v->wide[i];
    }
    dt__verify_value *to = &v->given[i].value;
    v->given[i].name = dt__verify_input_name(v->file, i);
    *to = (dt__verify_value){ .type = x->dtype == DT_I64   ? DT__VERIFY_I64
                                      : x->dtype == DT_I32 ? DT__VERIFY_I32
                                                           : DT__VERIFY_F32,
                              .rank = x->rank,
                              .count = x->count,
                              .data = (void *)(uintptr_t)dt_data(x) };
    memcpy(to->dims, x->dims, (size_t)x->rank * sizeof x->dims[0]);
    return DT_OK;
}

/* Sets an additional input: empty keys or values of earlier tokens. */
static dt_status give_none(verification *v, int64_t i)
{
    dt__verify_named *to = &v->given[i];
    char shown[DT__SHOWN];
    to->name = dt__verify_input_name(v->file, i);
    if (strncmp(to->name, "past", 4) != 0 ||
        !dt__verify_input_dims(v->file, i, DT__RANDOM_BATCH, &to->value)) {
        return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: the model has no input '%s'", v->path,
                       dt__shown(to->name, shown));
    }
    to->value.data = &v->none;
    return DT_OK;
}

static dt_status give_all(verification *v)
{
    v->n_given = dt__verify_inputs(v->file);
    if (v->n_given < v->n_in) {
        return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: %lld input%s, but the model has %d", v->path,
                       (long long)v->n_given, DT__S(v->n_given), v->n_in);
    }
    v->given = dt__alloc_zero(v->ctx, (size_t)v->n_given * sizeof *v->given);
    if (v->given == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < v->n_in; i++) DT__TRY(give(v, i));
    for (int64_t i = v->n_in; i < v->n_given; i++) DT__TRY(give_none(v, i));
    return DT_OK;
}

static dt_status compare(const verification *v, int i, dt_export_difference *d)
{
    const dt__verify_value *is = dt__verify_output(v->file, v->output[i]);
    const dt_tensor *y = v->y[i];
    char wanted[160], own[160];
    *d = (dt_export_difference){ .values = y->count };
    snprintf(d->output, sizeof d->output, "%s", dt__verify_output_name(v->file, v->output[i]));
    if (is->type != DT__VERIFY_F32 || is->rank != y->rank ||
        memcmp(is->dims, y->dims, (size_t)y->rank * sizeof y->dims[0]) != 0) {
        dt__dims_text(y->rank, y->dims, wanted, sizeof wanted);
        dt__dims_text(is->rank, is->dims, own, sizeof own);
        return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: output %d is %s %s, but float %s of the model",
                       v->path, i, dt__verify_type_name(is->type), own, wanted);
    }
    double largest = 0;
    dt__add_difference(is->data, dt_data(y), y->count, d, &largest);
    return DT_OK;
}

/* Whether an output is keys or values for later tokens: present.0.key. */
static bool is_kept(const char *name)
{
    if (strncmp(name, "present.", 8) != 0) return false;
    name += 8 + strspn(name + 8, "0123456789");
    return strcmp(name, ".key") == 0 || strcmp(name, ".value") == 0;
}

/* Finds the outputs of the file that are the model's: all others. */
static dt_status find_outputs(verification *v)
{
    int n = 0;
    v->n_out = dt__module_outputs(v->m);
    for (int64_t i = 0; i < dt__verify_outputs(v->file); i++) {
        if (is_kept(dt__verify_output_name(v->file, i))) continue;
        if (n < v->n_out) v->output[n] = i;
        n++;
    }
    if (n == v->n_out) return DT_OK;
    return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: %d output%s, but the model has %d", v->path, n,
                   DT__S(n), v->n_out);
}

/* How often a file is read and run: TFLite one example at a time, and all at once. */
static int times_of(bool lite) { return lite ? 2 : 1; }

static dt__work_of work_of(bool lite) { return lite ? DT__INTERPRET_LITE : DT__INTERPRET; }

/* Estimated steps of a file, from the multiply-adds of its layers. In an ONNX file nodes also
 * unpack weights, and expand them once. */
static double steps_of(dt_module *m, bool lite, double products)
{
    return times_of(lite) * products + (lite ? 0 : 3 * (double)dt_param_count(m));
}

/* Plans progress for the constants of the file. */
static void plan_constants(const verification *v, bool lite)
{
    dt__cut_work(v->ctx, DT__CONVERT);
    dt__plan_work(v->ctx, DT__CONVERT, times_of(lite) * (double)dt_param_count(v->m));
}

/* Runs the model. Its kernels are fast and the file is run by plain loops, so progress counts only
 * the file's work. */
static dt_status run_model(verification *v)
{
    dt__positions counted;
    DT__TRY(dt__positions_begin(v->m, &counted));
    const dt_status s = dt__outputs_of(v->m, v->x, v->n_in, &v->tape, v->y);
    dt__positions_end(&counted);
    const bool lite = v->file == NULL;
    dt__cut_work(v->ctx, work_of(lite));
    dt__plan_work(v->ctx, work_of(lite),
                  1 + steps_of(v->m, lite, dt__positions_products(&counted)));
    dt__pass_work(v->ctx);
    dt__positions_free(&counted);
    return s;
}

static dt_status verify_onnx(verification *v, const dt_model_info *info, const char *path,
                             dt_export_difference *out)
{
    DT__TRY(dt__verify_open(v->ctx, path, NULL, &v->file));
    dt__cut_work(v->ctx, DT__READ);
    plan_constants(v, false);
    dt__did_work(v->ctx, DT__CONVERT, (double)dt_param_count(v->m));
    DT__TRY(find_outputs(v));
    DT__TRY(dt__random_inputs(v->m, info, v->in, &v->n_in, v->x));
    DT__TRY(give_all(v));
    DT__TRY(run_model(v));
    DT__TRY(dt__verify_run(v->file, v->given, v->n_given));
    for (int i = 0; i < v->n_out; i++) DT__TRY(compare(v, i, &out[i]));
    return DT_OK;
}

static dt_status verify_tflite(verification *v, const dt_model_info *info, const dt__span *file,
                               dt_export_difference *out)
{
    dt__end_name names[DT_MAX_IN + DT_MAX_OUT];
    v->n_out = dt__module_outputs(v->m);
    DT__TRY(dt__random_inputs(v->m, info, v->in, &v->n_in, v->x));
    plan_constants(v, true);
    DT__TRY(run_model(v));
    dt__trace_names(
        v->m, &(dt_trace_options){ .input = v->in, .n_inputs = v->n_in, .n_outputs = v->n_out },
        names);
    const dt__verify_tensors of = { v->x, v->y, v->n_in, v->n_out, names + v->n_in };
    return dt__verify_tflite(v->ctx, v->path, file, &of, out);
}

/* The first bytes of a file tell its format. */
static dt_status verify(verification *v, const dt_model_info *info, const char *path,
                        dt_export_difference *out)
{
    struct stat about;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(v->ctx, "open", v->path, errno);
    void *bytes = MAP_FAILED;
    size_t size = 0;
    dt_status s = DT_OK;
    if (fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        s = dt__whole_size(v->ctx, v->path, about.st_size, &size);
        if (s == DT_OK) bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    }
    dt__sys_close(descriptor);
    DT__TRY(s);
    const dt__span file = { bytes, bytes == MAP_FAILED ? 0 : size };
    const bool lite = file.bytes > 0 && dt__verify_is_tflite(file.data, file.bytes);
    s = lite ? verify_tflite(v, info, &file, out) : verify_onnx(v, info, path, out);
    if (bytes != MAP_FAILED) munmap(bytes, file.bytes);
    return s;
}

dt_status dt_expect_verify(dt_module *m, const dt_model_info *info, const char *format)
{
    DT__NEED(NULL, m);
    DT__NEED(m->ctx, format);
    dt_trace *t;
    DT__TRY(dt_trace_model(m, info, true, &t));
    double products = 0;
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        products += (double)dt_trace_multiply_adds(t, dt_trace_call_at(t, i), DT__RANDOM_BATCH,
                                                   DT__RANDOM_LENGTH);
    }
    const bool lite = strcmp(format, "tflite") == 0;
    dt__expect_work(m->ctx, work_of(lite), steps_of(m, lite, products));
    dt__expect_work(m->ctx, DT__CONVERT, times_of(lite) * (double)dt_param_count(m));
    dt_trace_free(t);
    return DT_OK;
}

dt_status dt_export_verify(dt_module *m, const dt_model_info *info, const char *path,
                           dt_export_difference out[DT_MAX_OUT], int *n)
{
    DT__NEED(dt_module_ctx(m), n);
    *n = 0;
    if (m == NULL) return DT_ERR_ARG;
    dt_ctx *ctx = dt_module_ctx(m);
    if (path == NULL) return dt_fail(ctx, DT_ERR_ARG, "verify: path is NULL");
    if (dt__is_folder(path)) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "verify: %s is a folder; files of formats onnx and tflite are run, and a "
                       "folder of format c tests itself",
                       path);
    }
    verification v = { .ctx = ctx, .m = m, .path = dt__path_tail(path) };
    const dt_status s = verify(&v, info, path, out);
    if (s == DT_OK) *n = v.n_out;
    dt_tape_free(v.tape);
    for (int i = 0; i < DT_MAX_IN; i++) {
        DT__TENSORS_FREE(v.x[i], v.wide[i]);
    }
    dt__release(ctx, v.given);
    dt__verify_close(v.file);
    return s;
}
