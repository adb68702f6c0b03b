/* detent doctor: reports the processor, its instruction sets, OpenBLAS's core, threads and memory,
 * and what would make detent faster on this machine. Reads /proc, /sys and the environment;
 * measures nothing. */
#include "cli/cli.h"
#include "cli/print/text.h"

#include <detent/experimental/machine.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { JSON }; /* options, as in main.c */

#define FLAGS 8192
#define FACT 256
#define MOST_ADVICE 12

typedef struct doctor {
    dt_machine machine;
    char flags[FLAGS]; /* of the processor, a space before and after each */
    char sets[FACT];   /* those that detent uses and the processor has */
    double total_gb, free_gb, load;
    int n_advice;
    char advice[MOST_ADVICE][512];
} doctor;

/* The text behind `name` and a colon in a file of /proc; "" if there is none. */
static void read_field(const char *path, const char *name, char *out, size_t size)
{
    char line[FLAGS];
    FILE *f = fopen(path, "r");
    out[0] = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0) continue;
        const char *colon = strchr(line, ':');
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%s ", colon == NULL ? "" : colon + 1);
        break;
    }
    if (f != NULL) fclose(f);
}

static double memory_gb(const char *name)
{
    char text[64];
    read_field("/proc/meminfo", name, text, sizeof text);
    return strtod(text, NULL) * 1024 / 1e9;
}

static bool has(const doctor *d, const char *flag)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", flag);
    return strstr(d->flags, word) != NULL;
}

static void find_sets(doctor *d)
{
    static const char *const sets[][2] = {
        { "avx2", "AVX2" },
        { "fma", "FMA" },
        { "f16c", "F16C" },
        { "avx_vnni", "AVX-VNNI" },
        { "avx512f", "AVX-512" },
        { "avx512_vnni", "AVX-512 VNNI" },
        { "avx512_bf16", "AVX-512 BF16" },
        { "amx_int8", "AMX-INT8" },
        { "amx_bf16", "AMX-BF16" },
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (!has(d, sets[i][0])) continue;
        used +=
            (size_t)snprintf(d->sets + used, FACT - used, "%s%s", used > 0 ? ", " : "", sets[i][1]);
    }
    if (used == 0) snprintf(d->sets, FACT, "none that detent has kernels for");
}

static double load_of_machine(void)
{
    double load = 0;
    FILE *f = fopen("/proc/loadavg", "r");
    if (f == NULL) return 0;
    if (fscanf(f, "%lf", &load) != 1) load = 0;
    fclose(f);
    return load;
}

static dt_status examine(dt_ctx *ctx, doctor *d)
{
    const dt_status s = dt_machine_find(ctx, &d->machine);
    if (s != DT_OK) return s;
    read_field("/proc/cpuinfo", "flags", d->flags, sizeof d->flags);
    find_sets(d);
    d->total_gb = memory_gb("MemTotal");
    d->free_gb = memory_gb("MemAvailable");
    d->load = load_of_machine();
    return DT_OK;
}

static void advise(doctor *d, const char *format, ...) DT_PRINTF(2, 3);

static void advise(doctor *d, const char *format, ...)
{
    va_list arguments;
    if (d->n_advice == MOST_ADVICE) return;
    va_start(arguments, format);
    vsnprintf(d->advice[d->n_advice++], sizeof d->advice[0], format, arguments);
    va_end(arguments);
}

/* OpenBLAS's cores without AVX2. */
static bool is_old_core(const char *core)
{
    static const char *const old[] = { "Prescott", "Core2",       "Penryn",     "Dunnington",
                                       "Nehalem",  "Sandybridge", "Atom",       "Barcelona",
                                       "Bobcat",   "Bulldozer",   "Piledriver", "Generic" };
    size_t i = 0;
    while (i < sizeof old / sizeof old[0] && strcasecmp(old[i], core) != 0) i++;
    return i < sizeof old / sizeof old[0];
}

static void advise_about_processor(doctor *d)
{
    const char *cpu = getenv("DETENT_CPU"), *core = getenv("OPENBLAS_CORETYPE");
    const char *better = has(d, "avx512f") ? "SkylakeX" : has(d, "avx2") ? "Haswell" : NULL;
    if (cpu != NULL) {
        advise(d, "DETENT_CPU=%.40s chooses the kernels; without it detent takes the best ones",
               cpu);
    }
    if (better != NULL && is_old_core(d->machine.blas_core)) {
        advise(d,
               "OpenBLAS runs its kernels for %s%s; OPENBLAS_CORETYPE=%s makes rounding by gptq, "
               "gpfq and qronos faster, which alone use it",
               d->machine.blas_core, core != NULL ? ", which OPENBLAS_CORETYPE says" : "", better);
    }
    if (strcmp(d->machine.kernels, "amx-int8") == 0) {
        advise(d, "matrix tiles: train.float: bf16-tiles multiplies floats several times as fast "
                  "in training");
    }
    if (d->sets[0] == 'n') {
        advise(d, "no AVX2: plain C computes, at a tenth of the speed or less");
    }
}

static void advise_about_threads(doctor *d)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    if (threads != NULL && d->machine.threads < d->machine.cores) {
        advise(d, "OMP_NUM_THREADS=%.20s leaves cores unused: %ld are there", threads,
               d->machine.cores);
    }
    if (d->load > 0.5 * (double)d->machine.cores) {
        advise(d, "other programs use the cores: a load of %.1f on %ld", d->load, d->machine.cores);
    }
}

static void advise_about_system(doctor *d)
{
    char governor[32] = "";
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "r");
    if (f != NULL && fscanf(f, "%31s", governor) != 1) governor[0] = 0;
    if (f != NULL) fclose(f);
    if (strcmp(governor, "powersave") == 0) {
        advise(d, "the processor saves power: `cpupower frequency-set -g performance`");
    }
    if (d->free_gb > 0 && d->free_gb < 1) {
        advise(d, "%.1f GB of memory are free; larger runs need more", d->free_gb);
    }
}

static void print_text(const doctor *d)
{
    const dt_machine *m = &d->machine;
    char text[FACT];
    snprintf(text, sizeof text, "%s, compiler %s", dt_version(), __VERSION__);
    cli_entry(stdout, "detent", 18, text);
    cli_entry(stdout, "processor", 18, m->processor);
    cli_entry(stdout, "instruction sets", 18, d->sets);
    cli_entry(stdout, "kernels", 18, m->kernels);
    snprintf(text, sizeof text, "%s, core %s", m->blas, m->blas_core);
    cli_entry(stdout, "products", 18, text);
    snprintf(text, sizeof text, "%d of %ld cores, load %.1f", m->threads, m->cores, d->load);
    cli_entry(stdout, "threads", 18, text);
    snprintf(text, sizeof text, "%zu KiB, %zu KiB, %zu MiB", m->cache[0] >> 10, m->cache[1] >> 10,
             m->cache[2] >> 20);
    cli_entry(stdout, "caches", 18, text);
    snprintf(text, sizeof text, "%.1f GB, %.1f GB free", d->total_gb, d->free_gb);
    cli_entry(stdout, "memory", 18, text);
    putchar('\n');
    if (d->n_advice == 0) cli_say("Nothing was found that would make it faster.");
    for (int i = 0; i < d->n_advice; i++) cli_entry(stdout, "-", 2, d->advice[i]);
}

static void print_json(const doctor *d)
{
    const dt_machine *m = &d->machine;
    const char *const texts[][2] = {
        { "detent", dt_version() }, { "processor", m->processor }, { "instruction_sets", d->sets },
        { "kernels", m->kernels },  { "openblas", m->blas },       { "openblas_core", m->blas_core }
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        printf("%s\"%s\": ", i == 0 ? "{" : ", ", texts[i][0]);
        cli_json_string(texts[i][1]);
    }
    printf(", \"cores\": %ld, \"threads\": %d, \"load\": ", m->cores, m->threads);
    cli_json_number(d->load);
    printf(", \"caches\": [%zu, %zu, %zu], \"memory_gb\": ", m->cache[0], m->cache[1], m->cache[2]);
    cli_json_number(d->total_gb);
    fputs(", \"free_gb\": ", stdout);
    cli_json_number(d->free_gb);
    fputs(", \"advice\": [", stdout);
    for (int i = 0; i < d->n_advice; i++) {
        if (i > 0) fputs(", ", stdout);
        cli_json_string(d->advice[i]);
    }
    puts("]}");
}

int cli_doctor(const cli_args *args, dt_ctx *ctx)
{
    doctor d = { .n_advice = 0 };
    const dt_status s = examine(ctx, &d);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
    if (status != CLI_DONE) return status;
    advise_about_processor(&d);
    advise_about_threads(&d);
    advise_about_system(&d);
    (args->option[JSON] != NULL ? print_json : print_text)(&d);
    return CLI_DONE;
}
