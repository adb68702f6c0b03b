/* What fuzz targets share. A target gives bytes to one of detent's readers, as from an untrusted
 * file, and aborts where a promise is broken: an error without a message, memory that is not freed,
 * a written file that cannot be read again. libFuzzer runs a target millions of times (main.c),
 * detent-test a few times on known inputs (tests/test_fuzz.c). */
#ifndef FUZZ_H
#define FUZZ_H

#include <detent/experimental/data.h>

#include <stdlib.h>

typedef struct fuzz_seeds fuzz_seeds;

typedef struct fuzz_target {
    const char *name, *text;
    void (*run)(const uint8_t *data, size_t n);
    /* Writes seeds that reach deep code, with detent's own writers where there are some; called by
     * detent-test. */
    void (*seeds)(const fuzz_seeds *s);
} fuzz_target;

#define TARGET(name) extern const fuzz_target fuzz_target_##name;
#include "targets.inc"
#undef TARGET

extern const fuzz_target *const fuzz_targets[]; /* ended by NULL */
/* NULL: there is none of this name. */
const fuzz_target *fuzz_target_named(const char *name);

/* Aborts with a message unless the condition, which a target needs to run at all, holds. */
#define FUZZ_NEEDS(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) fuzz_abort(#condition, __VA_ARGS__);                                     \
    } while (0)
/* Aborts if a promise of detent does not hold. */
#define FUZZ_HOLDS(condition, ...)                                                                 \
    do {                                                                                           \
        if (fuzz_at_promise != NULL) fuzz_at_promise();                                            \
        FUZZ_NEEDS(condition, __VA_ARGS__);                                                        \
    } while (0)
/* Ends the test of an input whose memory fails: promises are for calls with enough memory. */
extern void (*fuzz_at_promise)(void);
_Noreturn void fuzz_abort(const char *condition, const char *format, ...) DT_PRINTF(2, 3);

/* ---- running --------------------------------------------------------------------------------- */

/* A context of one thread whose allocations fail above 512 MiB; `cpu` as dt_ctx_options.cpu_mask.
 * fuzz_end frees it and aborts if anything of it is left. */
dt_ctx *fuzz_ctx(uint64_t cpu);
void fuzz_end(dt_ctx *ctx);

/* After an error there must be a message, and no result. */
void fuzz_refused(const dt_ctx *ctx, bool made);

/* The path of a file in a folder of this process, in memory where possible; "a/b" creates folder a.
 * The path is valid until the eighth later call. */
const char *fuzz_path(const char *name);
const char *fuzz_file(const char *name, const void *data, size_t n);
void fuzz_remove(const char *name);

/* "JSON header" 0 "data" as a safetensors file: a fuzzer would hardly find a length of eight bytes.
 * Data without a 0 are the file itself. */
const char *fuzz_safetensors(const char *name, const uint8_t *data, size_t n);

/* Cuts a part off the front of data: its length in two bytes, then as many bytes as are there. */
typedef struct fuzz_bytes {
    const uint8_t *v;
    size_t n;
} fuzz_bytes;
fuzz_bytes fuzz_part(fuzz_bytes *rest);

/* One choice of a graph or option: 0 to `below` - 1, from the next byte; 0 where none is left. */
unsigned fuzz_choice(fuzz_bytes *rest, unsigned below);

/* Reads three batches of a dataset, and frees it. */
void fuzz_batches(dt_dataset *d);
/* The sum of bytes, so that each of them is read. */
void fuzz_touch(const void *data, size_t n);

/* ---- seeds ----------------------------------------------------------------------------------- */

struct fuzz_seeds {
    const char *folder;
};

void fuzz_seed(const fuzz_seeds *s, const char *name, const void *data, size_t n);
void fuzz_seed_text(const fuzz_seeds *s, const char *name, const char *text);
/* Parts as fuzz_part cuts them off; the last has no length in front. */
void fuzz_seed_parts(const fuzz_seeds *s, const char *name, const fuzz_bytes *part, int n);
/* A safetensors file as fuzz_safetensors takes it, without detent's version and hash: to be freed
 * with free(). */
fuzz_bytes fuzz_seed_safetensors(const char *path);

/* Bytes of a text. */
fuzz_bytes fuzz_text(const char *text);

#endif
