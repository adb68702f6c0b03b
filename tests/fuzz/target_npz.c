/* Arrays of NumPy in an archive. */
#include "fuzz.h"

#include "array_files.h"
#include "target_arrays.h"

#include <stdio.h>

static void run(const uint8_t *data, size_t n)
{
    char name[300];
    const char *path = fuzz_file("a.npz", data, n);
    fuzz_array(path);
    fuzz_tensors(path);
    snprintf(name, sizeof name, "%s:b", path);
    fuzz_array(name);
}

static void seeds(const fuzz_seeds *s)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    static const uint8_t data[24] = { 1, 2, 3 };
    static const char *const names[] = { "stored", "deflated", "two", "large" };
    for (int i = 0; i < 4; i++) {
        file_bytes a = npy_file(1, head, data, sizeof data);
        const zip_member m[] = { { "b.npy", a, i == 0 ? 0 : 8 }, { "a.npy", a, 0 } };
        file_bytes f = zip_file(m, i == 2 ? 2 : 1, i == 3);
        fuzz_seed(s, names[i], f.v, f.n);
        file_free(&f);
        file_free(&a);
    }
}

const fuzz_target fuzz_target_npz = { "npz", "an archive of NumPy", run, seeds };
