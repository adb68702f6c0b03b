/* An ONNX file, run by the interpreter of --verify on inputs of zeros. */
#include "fuzz.h"

#include "io/onnx/interpret/interpret_graph.h"
#include "onnx_graph.h"
#include "saved.h"

#include <stdio.h>
#include <string.h>

#define MOST_INPUTS 8

/* The type and extents that an input is declared with; a symbol stands for 2. */
static bool shape(const dt__verify *v, int64_t i, dt__verify_value *x)
{
    const DtOnnx__Type *type = v->input[i]->type;
    const DtOnnx__TensorType *tensor = type == NULL ? NULL : type->tensor_type;
    if (tensor == NULL || tensor->shape == NULL || tensor->shape->n_dim > DT_MAX_RANK) return false;
    x->type = dt__verify_input_type(v, i);
    x->rank = (int)tensor->shape->n_dim;
    for (int d = 0; d < x->rank; d++) {
        const DtOnnx__Dimension *dim = tensor->shape->dim[d];
        x->dims[d] = *dim->dim_param != 0 ? 2 : dim->dim_value;
    }
    return dt__verify_fits(x->rank, x->dims, &x->count);
}

static dt_status run_zeros(dt__verify *v)
{
    static const double zeros[1 << 10];
    dt__verify_named in[MOST_INPUTS];
    const int64_t n = dt__verify_inputs(v);
    if (n > MOST_INPUTS) return DT_OK;
    for (int64_t i = 0; i < n; i++) {
        in[i] = (dt__verify_named){ .name = dt__verify_input_name(v, i) };
        if (!shape(v, i, &in[i].value) || in[i].value.count > DT__COUNT_OF(zeros)) return DT_OK;
        in[i].value.data = (void *)(uintptr_t)zeros;
    }
    return dt__verify_run(v, in, n);
}

static void run(const uint8_t *data, size_t n)
{
    static const dt__verify_limits limits = { .bytes = (size_t)16 << 20, .work = 1e6 };
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt__verify *v = NULL;
    dt_status s = dt__verify_open(ctx, fuzz_file("a.onnx", data, n), &limits, &v);
    if (s == DT_OK) s = run_zeros(v);
    if (s != DT_OK) fuzz_refused(ctx, false);
    dt__verify_close(v);
    fuzz_end(ctx);
}

static const onnx_case cases[] = {
#include "onnx_cases.inc"
};

/* One case of each operator, and exports. */
static void seeds(const fuzz_seeds *s)
{
    saved_export_seed(s, "mlp", "onnx", false);
    saved_export_seed(s, "mlp", "onnx", true);
    saved_export_seed(s, "cnn", "onnx", true);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        char name[96];
        size_t n;
        if (i > 0 && cases[i - 1].op != NULL && strcmp(cases[i].op, cases[i - 1].op) == 0) continue;
        const unsigned char *bytes = onnx_pack(onnx_model(&cases[i]), &n);
        snprintf(name, sizeof name, "%s", cases[i].op);
        fuzz_seed(s, name, bytes, n);
        onnx_forget();
    }
}

const fuzz_target fuzz_target_onnx_run = { "onnx_run", "an ONNX file, run", run, seeds };
