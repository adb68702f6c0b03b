/* A whole file, plain or gzip, as texts are read. */
#include "fuzz.h"

#include <string.h>
#include <zlib.h>

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    char *text = NULL;
    size_t bytes;
    if (dt_text_read(ctx, fuzz_file("a.gz", data, n), &text, &bytes) == DT_OK) {
        FUZZ_HOLDS(text[bytes] == 0, "no NUL behind %zu bytes", bytes);
        fuzz_touch(text, bytes);
        dt_text_free(ctx, text);
    } else {
        fuzz_refused(ctx, text != NULL);
    }
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const texts[] = { "abc", "a text, a text, and a longer text\n" };
    uint8_t file[200];
    size_t used = 0;
    for (int i = 0; i < 2; i++) { /* the second seed has two members */
        z_stream z = { .next_in = (Bytef *)(uintptr_t)texts[i],
                       .avail_in = (uInt)strlen(texts[i]),
                       .next_out = file + used,
                       .avail_out = (uInt)(sizeof file - used) };
        if (deflateInit2(&z, i == 0 ? 0 : 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END) used += (size_t)z.total_out;
        (void)deflateEnd(&z);
        fuzz_seed(s, i == 0 ? "stored" : "members", file, used);
    }
}

const fuzz_target fuzz_target_gzip = { "gzip", "a text, plain or gzip", run, seeds };
