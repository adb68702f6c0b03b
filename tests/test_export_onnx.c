/* Format onnx on random networks: the file is read back by protobuf-c and its structure checked;
 * hostile names, failing allocations and writes. With DETENT_EXPORTS=FOLDER the files stay there,
 * N.onnx beside N.in.safetensors and N.out.safetensors, for scripts/exports/onnx_check.py. */
#include "random_nets.h"
#include "testing.h"

#include "core/core.h"
#include "export/exporters.h"
#include "io/onnx.h"

#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 60, .sanitized = 10 };

/* ---- a network, converted -------------------------------------------------------------------- */

static void train_once(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_backward(t, dt_mean(t, dt_mul(t, y, y), NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* The output in evaluation mode, a copy that the caller frees. */
static dt_tensor *output_of(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    dt_tensor *copy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_tensor_from(ctx, y->dtype, y->rank, y->dims, dt_data(y), &copy));
    dt_tape_free(t);
    return copy;
}

/* The trace of one example of x. */
static dt_trace *trace_of(dt_module *m, const random_net *d, const dt_tensor *x)
{
    dt_trace *t;
    dt_trace_input in = { .dtype = x->dtype, .rank = x->rank, .dims = { 1 } };
    for (int i = 1; i < x->rank; i++) in.dims[i] = x->dims[i];
    if (d->vocab > 0) {
        in.tokens = true;
        in.dims[1] = 1;
        in.below = d->vocab;
        in.name = "tokens";
    }
    const dt_trace_options o = { .input = &in, .n_inputs = 1 };
    const dt_status s = dt_trace_create(m, &o, &t);
    ck_assert_msg(s == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
                  dt_error(dt_module_ctx(m)));
    return t;
}

static dt_status export_to(dt_module *m, const dt_trace *t, const char *path,
                           dt_export_summary *summary)
{
    const dt_export_options o = dt_export_defaults();
    const dt_export_call call = { .ctx = dt_module_ctx(m), .m = m, .trace = t, .options = &o,
                                  .path = path, .summary = summary };
    return dt_exporter_named("onnx")->write(&call);
}

static void save(const char *path, const char *name, const dt_tensor *x)
{
    const dt_named_tensor one = { name, (dt_tensor *)(uintptr_t)x };
    TEST_OK(x->ctx, dt_tensors_save(x->ctx, path, &one, 1));
}
