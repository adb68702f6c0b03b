/* An array of NumPy. */
#include "fuzz.h"

#include "array_files.h"
#include "data/files/array_file.h"
#include "target_arrays.h"

void fuzz_array(const char *name)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt__array_file a;
    size_t bytes;
    if (dt__array_file_open(ctx, name, &a) == DT_OK) {
        FUZZ_HOLDS(dt__array_bytes(&a, &bytes), "a size that overflows");
        fuzz_touch(a.data, bytes);
    } else {
        fuzz_refused(ctx, false);
    }
    dt__array_file_close(&a);
    fuzz_end(ctx);
}

static void run(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("a.npy", data, n);
    fuzz_array(path);
    fuzz_tensors(path);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const heads[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (24,), }",
        "{'shape': (1, 2, 3), 'descr': '<i4', 'fortran_order': False}"
    };
    static const char *const names[] = { "f4", "u1", "i4" };
    static const uint8_t data[24] = { 1, 2, 3 };
    for (int i = 0; i < 3; i++) {
        file_bytes f = npy_file(i + 1, heads[i], data, sizeof data);
        fuzz_seed(s, names[i], f.v, f.n);
        file_free(&f);
    }
}

const fuzz_target fuzz_target_npy = { "npy", "an array of NumPy", run, seeds };
