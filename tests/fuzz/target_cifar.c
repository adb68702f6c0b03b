/* A file of CIFAR-10 or CIFAR-100, plain or gzip; the first byte says which. */
#include "fuzz.h"

#include <zlib.h>

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const dt_cifar kind = (dt_cifar)fuzz_choice(&rest, 3);
    const char *path = fuzz_file("cifar", rest.v, rest.n);
    const dt_strings list = { .n = 1, .v = { path } };
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_dataset *d = NULL;
    if (dt_cifar_read(ctx, kind, &list, &d) == DT_OK) fuzz_batches(d);
    else fuzz_refused(ctx, d != NULL);
    fuzz_end(ctx);
}

/* Records of zeros are few bytes as gzip. */
static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "cifar10", "cifar100-fine", "cifar100-coarse" };
    for (int i = 0; i < 3; i++) {
        static uint8_t record[3 * 3074], file[600];
        const uInt each = i == 0 ? 3073 : 3074;
        z_stream z = { .next_in = record, .avail_in = 3 * each };
        record[each] = 1;
        if (deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) != Z_OK) continue;
        z.next_out = file + 1;
        z.avail_out = sizeof file - 1;
        const int end = deflate(&z, Z_FINISH);
        file[0] = (uint8_t)i;
        if (end == Z_STREAM_END) fuzz_seed(s, names[i], file, 1 + (size_t)z.total_out);
        (void)deflateEnd(&z);
    }
}

const fuzz_target fuzz_target_cifar = { "cifar", "a file of CIFAR", run, seeds };
