/* What a model's file says of its data, and a file of examples for it: the first byte chooses the
 * file's ending. */
#include "fuzz.h"

#include "testing.h"

#include <detent/experimental/io.h>

#include <stdio.h>

static void run(const uint8_t *data, size_t n)
{
    static const char *const names[] = { "x.csv", "x.npy", "x.wav", "x.png" };
    fuzz_bytes rest = { data, n };
    const char *name = names[fuzz_choice(&rest, 4)];
    const fuzz_bytes text = fuzz_part(&rest);
    char *copy = calloc(1, text.n + 1);
    FUZZ_NEEDS(copy != NULL, "memory");
    if (text.n > 0) memcpy(copy, text.v, text.n);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_model_data m = { 0 };
    dt_dataset *d = NULL;
    if (dt_model_data_parse(ctx, copy, "m", &m) == DT_OK) {
        const char *path = fuzz_file(name, rest.v, rest.n);
        if (dt_model_data_open(ctx, &m, path, NULL, &d) == DT_OK) fuzz_batches(d);
        else fuzz_refused(ctx, d != NULL);
        dt_model_data_free(ctx, &m);
    } else {
        fuzz_refused(ctx, false);
    }
    free(copy);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const struct {
        const char *text, *file;
    } all[] = {
        { "{\"target\":\"classes\",\"input\":[2],\"axis\":0,\"mean\":[0.5,1],"
          "\"deviation\":[1,2],\"names\":[\"a\",\"b\"],\"columns\":[\"p\",\"q\"],"
          "\"output\":[2],\"meaning\":\"logits\"}",
          "p,q,other\n1,2,3\n4,5,6\n" },
        { "{\"target\":\"values\",\"input\":[3,2],\"output\":[1],\"meaning\":\"values\"}",
          "1,2,3,4,5,6\n" },
        { "{\"target\":\"several\",\"input\":[4],\"inputs\":[{\"name\":\"l\",\"input\":[2]},"
          "{\"name\":\"r\",\"input\":[2]}],\"outputs\":[{\"name\":\"k\",\"target\":\"classes\","
          "\"input\":[4],\"output\":[2]}]}",
          "1,2,3,4\n" },
        { "{\"target\":\"classes\",\"input\":[1,4,4],\"pixels\":true,\"resized\":true,\"rate\":"
          "8000,"
          "\"features\":{\"kind\":\"mfcc\"}}",
          "" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char one[4096], name[8];
        const size_t text = strlen(all[i].text), file = strlen(all[i].file);
        snprintf(name, sizeof name, "%zu", i);
        one[0] = 0;
        one[1] = (char)(text & 255);
        one[2] = (char)(text >> 8);
        memcpy(one + 3, all[i].text, text);
        memcpy(one + 3 + text, all[i].file, file);
        fuzz_seed(s, name, one, 3 + text + file);
    }
}

const fuzz_target fuzz_target_model_data = { "model_data", "what a model says of its data", run,
                                             seeds };
