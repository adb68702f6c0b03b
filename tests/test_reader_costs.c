/* What an untrusted file may cost: memory and time of the program per byte of the file, for files
 * that consist mostly of what is most expensive to read. Measured with two sizes, so that constant
 * costs cancel out. SECURITY.md lists the bounds; memory is checked against them, and time only for
 * growing no faster than the file. */
#define _DEFAULT_SOURCE /* wait4 */
#include "testing.h"

#include "core/core.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct reader {
    const char *name, *file;
    void (*write)(FILE *f, int64_t n); /* about n bytes */
    const char *arguments[8];          /* of the program, in the file's folder */
    int status;                        /* how it ends */
    int64_t small;                     /* the smaller of both sizes */
    double most;                       /* bytes of memory per byte of the file */
} reader;

/* ---- files ----------------------------------------------------------------------------------- */

static void write_header(FILE *f, const char *text, size_t n)
{
    for (int i = 0; i < 8; i++) fputc((int)((uint64_t)n >> 8 * i & 255), f);
    fwrite(text, 1, n, f);
}

/* A header of entries of a form that takes their number. */
static void write_entries(FILE *f, int64_t n, const char *form)
{
    char *text = malloc((size_t)n + 200);
    size_t at = 1;
    *text = '{';
    for (int i = 0; (int64_t)at < n; i++) {
        if (i > 0) text[at++] = ',';
        at += (size_t)snprintf(text + at, 150, form, i);
    }
    text[at++] = '}';
    write_header(f, text, at);
    free(text);
}

static void tensors(FILE *f, int64_t n)
{
    write_entries(f, n, "\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
}

static void recipe(FILE *f, int64_t n)
{
    fprintf(f, "run: {dir: x}\nmodel: {family: mlp, sizes: [784, 10]}\ndata: {format: digits}\n"
               "qat:\n  rules:\n");
    for (int64_t i = 0; i < n / 30; i++)
        fprintf(f, "    - {match: a%lld, skip: true}\n", (long long)i);
}

/* Added tokens of 300 bytes that differ at their ends. */
static void tokenizer(FILE *f, int64_t n)
{
    fprintf(f, "{\"added_tokens\":[");
    for (int i = 0; i < (int)(n / 480); i++) {
        fprintf(f, "%s{\"id\":%d,\"content\":\"", i > 0 ? "," : "", 256 + i);
        for (int k = 0; k < 292; k++) fputc('a', f);
        fprintf(f,
                "%08d\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
                "false,\"special\":true}",
                i);
    }
    fprintf(f,
            "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
            "false,\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{"
            "\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0, next = 256; i < 256; i++) { /* bytes as characters, as GPT-2 writes them */
        const bool own = (i > 32 && i < 127) || (i > 160 && i != 173);
        const int c = own ? i : next++;
        fprintf(f, "%s\"", i > 0 ? "," : "");
        if (c == '"' || c == '\\') fputc('\\', f);
        if (c < 128) fputc(c, f);
        else fprintf(f, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 63));
        fprintf(f, "\":%d", i);
    }
    fprintf(f, "},\"merges\":[]}}");
}

static void table(FILE *f, int64_t n)
{
    fprintf(f, "a,kind\n");
    for (int64_t i = 0; i < n / 4; i++) fprintf(f, "%d,%c\n", (int)(i % 10), 'x' + (int)(i % 2));
}

static void text(FILE *f, int64_t n)
{
    for (int64_t i = 0; i < n; i++) fputc('a' + (int)(i * i % 23), f);
}

static const reader readers[] = {
    { "safetensors, tensors without elements",
      "x.st",
      tensors,
      { "inspect", "x.st", "--json" },
      0,
      1 << 20,
      24 },
    { "recipe, rules", "x.yaml", recipe, { "config", "validate", "x.yaml" }, 2, 1 << 17, 120 },
    { "tokenizer.json, added tokens",
      "x.json",
      tokenizer,
      { "tokenize", "prompt", "--tokenizer", "x.json", "--special" },
      0,
      1 << 21,
      24 },
    { "CSV, columns of a digit",
      "x.csv",
      table,
      { "new", "own.yaml", "--data", "x.csv", "--target", "kind" },
      0,
      1 << 20,
      24 },
    { "text, a token a byte",
      "x.txt",
      text,
      { "tokenize", "x.txt", "--tokenizer", "bytes", "-o", "ids.bin" },
      0,
      1 << 20,
      16 },
};

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct cost {
    double bytes, memory, seconds;
} cost;

static void become_program(const reader *r, const char *folder)
{
    static char program[] = DETENT_BINARY_DIR "/detent";
    char *words[10] = { program };
    for (int i = 0; i < 8 && r->arguments[i] != NULL; i++) {
        words[i + 1] = (char *)(uintptr_t)r->arguments[i];
    }
    const int to = open("/dev/null", O_WRONLY);
    if (to < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0 || chdir(folder) != 0) _exit(98);
    execv(program, words);
    _exit(97);
}

static cost measure(const reader *r, int64_t n)
{
    char folder[TEST_PATH], path[TEST_PATH];
    struct rusage used;
    struct stat about;
    int status;
    test_folder(folder);
    test_join(path, folder, "prompt");
    test_write_text(path, "some words");
    test_join(path, folder, r->file);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    r->write(f, n);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(stat(path, &about), 0);
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) become_program(r, folder);
    ck_assert_int_eq(wait4(child, &status, 0, &used), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == r->status, "%s: status %x", r->name,
                  (unsigned)status);
    return (cost){ (double)about.st_size, 1024.0 * (double)used.ru_maxrss,
                   (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) };
}

START_TEST(readers_cost_in_proportion)
{
#ifdef TEST_SANITIZED
    test_skip("a sanitizer's memory is not the program's");
    return;
#endif
    const reader *r = &readers[_i];
    const cost a = measure(r, r->small), b = measure(r, 4 * r->small);
    const double memory = (b.memory - a.memory) / (b.bytes - a.bytes);
    const double nanoseconds = 1e9 * (b.seconds - a.seconds) / (b.bytes - a.bytes);
    printf("%-40s %6.1f bytes, %6.0f ns a byte\n", r->name, memory, nanoseconds);
    ck_assert_msg(memory <= r->most, "%s: %.1f bytes of memory a byte, %.0f are the most", r->name,
                  memory, r->most);
    ck_assert_msg(b.seconds < 8 * a.seconds + 0.5,
                  "%s: %.2f s, and %.2f s for four times the bytes", r->name, a.seconds, b.seconds);
}
END_TEST

Suite *test_reader_costs_suite(void)
{
    Suite *s = suite_create("reader_costs");
    TCase *c = tcase_create("reader_costs");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, readers_cost_in_proportion, 0, DT__COUNT_OF(readers));
    suite_add_tcase(s, c);
    return s;
}
