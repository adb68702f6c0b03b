/* A TFLite file, run by the interpreter of --verify on inputs of zeros. */
#include "fuzz.h"

#include "io/tflite/lite.h"
#include "saved.h"

static dt_status run_zeros(dt__vlite *v)
{
    static const double zeros[1 << 10];
    for (int i = 0; i < dt__vlite_inputs(v); i++) {
        if (dt__vlite_input(v, i)->count > DT__COUNT_OF(zeros)) return DT_OK;
        DT__TRY(dt__vlite_give(v, i, zeros));
    }
    return dt__vlite_run(v);
}

static void run(const uint8_t *data, size_t n)
{
    static const dt__vlite_limits limits = { .bytes = (size_t)16 << 20, .work = 1e6 };
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt__vlite *v = NULL;
    dt_status s = dt__vlite_open(ctx, "a.tflite", &(dt__span){ data, n }, &limits, &v);
    if (s == DT_OK) s = run_zeros(v);
    if (s != DT_OK) fuzz_refused(ctx, false);
    dt__vlite_close(v);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    saved_export_seed(s, "mlp", "tflite", false);
    saved_export_seed(s, "mlp", "tflite", true);
    saved_export_seed(s, "cnn", "tflite", true);
}

const fuzz_target fuzz_target_tflite = { "tflite", "a TFLite file, run", run, seeds };
