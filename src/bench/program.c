/* detent-bench: the machine's limits, and kernels and training steps as shares of them. For
 * developers: it is built beside detent and not installed. */
#include "bench/bench.h"

#include <detent/experimental/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: detent-bench [OPTIONS]\n"
    "\n"
    "  --only PART[,PART]  limits, products, quantize, optimizer, step, convolutions, rounding,\n"
    "                      language, experts, backward, waiting, device, growth\n"
    "  --threads N         beside one thread; default: one for each core\n"
    "  --repeat N          repetitions; default: as many as a second holds\n"
    "  --explain           also where the time of each training step goes\n"
    "  --quick             small shapes, a few seconds: whether it works\n"
    "  --json              results as JSON\n";

enum { DONE, FAILED, WRONG }; /* exit statuses, as those of detent */

typedef struct settings {
    dt_bench_options options;
    int threads;
    bool json, help;
} settings;

/* Adds the part named text[0...length-1]. */
static int add_part(const char *text, size_t length, unsigned *parts)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    for (int i = 0; dt_bench_parts[i] != NULL; i++) {
        if (strcmp(dt_bench_parts[i], name) != 0) continue;
        *parts |= 1U << i;
        return DONE;
    }
    const char *meant = dt_nearest(dt_bench_parts, name);
    fprintf(stderr, "detent-bench: --only: there is no part '%s'; ", name);
    if (meant == NULL) fputs("--help lists them\n", stderr);
    else fprintf(stderr, "did you mean '%s'?\n", meant);
    return WRONG;
}

static int read_parts(const char *text, unsigned *parts)
{
    for (*parts = 0;; text++) {
        const size_t length = strcspn(text, ",");
        const int status = add_part(text, length, parts);
        if (status != DONE) return status;
        text += length;
        if (*text == 0) return DONE;
    }
}

static int read_count(const char *name, const char *text, int most, int *out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && value >= 1 && value <= most) {
        *out = (int)value;
        return DONE;
    }
    fprintf(stderr, "detent-bench: %s must be 1 to %d, got '%s'\n", name, most, text);
    return WRONG;
}

/* An option that has a value. */
static int read_valued(const char *name, const char *value, settings *s)
{
    if (strcmp(name, "--only") == 0) return read_parts(value, &s->options.parts);
    if (strcmp(name, "--threads") == 0) return read_count(name, value, 1024, &s->threads);
    return read_count(name, value, 1000, &s->options.repeat);
}

static int read_arguments(char **argv, settings *s)
{
    static const char *const valued[] = { "--only", "--threads", "--repeat" };
    const struct {
        const char *name;
        bool *to;
    } plain[] = { { "--json", &s->json },
                  { "--explain", &s->options.explain },
                  { "--quick", &s->options.quick },
                  { "--help", &s->help } };
    for (char **word = argv + 1; *word != NULL; word++) {
        bool known = false;
        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
            if (strcmp(*word, plain[i].name) == 0) known = *plain[i].to = true;
        }
        for (size_t i = 0; !known && word[1] != NULL && i < sizeof valued / sizeof *valued; i++) {
            if (strcmp(*word, valued[i]) != 0) continue;
            const int status = read_valued(valued[i], *++word, s);
            if (status != DONE) return status;
            known = true;
        }
        if (known) continue;
        fprintf(stderr, "detent-bench: '%s' is not an option, or lacks its value\n%s", *word,
                usage);
        return WRONG;
    }
    return DONE;
}

/* OpenBLAS reads this variable when it is loaded, by the first rounding with data. Kernels for
 * another processor may double the time of the rounding. */
static void ignore_core(void)
{
    const char *core = getenv("OPENBLAS_CORETYPE");
    if (core == NULL) return;
    fprintf(stderr, "detent-bench: OPENBLAS_CORETYPE is '%s', which is ignored\n", core);
    unsetenv("OPENBLAS_CORETYPE");
}

/* Flushes each row, since the next one may take a while. */
static dt_status print(void *user, const char *text, size_t bytes)
{
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? DT_OK : DT_ERR_IO;
}

static int measure(const settings *s)
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = s->threads;
    if (dt_ctx_create(&ctx, &o) != DT_OK) {
        fputs("detent-bench: out of memory\n", stderr);
        return FAILED;
    }
    const dt_status status = dt_bench_write(ctx, &s->options, s->json, print, NULL);
    if (status == DT_ERR_IO) fputs("detent-bench: standard output cannot be written\n", stderr);
    else if (status != DT_OK) fprintf(stderr, "detent-bench: %s\n", dt_error(ctx));
    dt_ctx_free(ctx);
    /* an invalid $DETENT_CPU */
    return status == DT_OK ? DONE : status == DT_ERR_ARG ? WRONG : FAILED;
}

int main(int argc, char **argv)
{
    settings s = { .options = dt_bench_defaults() };
    (void)argc;
    const int status = read_arguments(argv, &s);
    if (status != DONE) return status;
    if (s.help) return fputs(usage, stdout) < 0 ? FAILED : DONE;
    ignore_core();
    return measure(&s);
}
