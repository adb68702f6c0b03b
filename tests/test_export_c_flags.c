/* Format c under flags that let a compiler change floats: the self-test finds the same bits, or
 * compiling or the first run fails with the reason. */
#include "c_folder.h"
#include "list_nets.h"
#include "testing.h"

#include "core/core.h"
#include "nn/module.h"

#include <detent/export.h>

#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 48, .sanitized = 2, .quick = 4 };

/* Parts of -ffast-math. */
static const char *const parts[] = {
    "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    "-freciprocal-math",
    "-funsafe-math-optimizations",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-march=native",
};
static const char *const parts_of_clang[] = { "-fapprox-func", "-fno-honor-nans",
                                              "-fno-honor-infinities" };
static const char *const parts_of_gcc[] = { "-fsingle-precision-constant", "-fcx-limited-range",
                                            "-fexcess-precision=fast" };

/* Layers with exp, divisions, square roots and long sums. */
static const char *const nets[] = {
    "  input: [40]\n  layers:\n  - {linear: a, out: 33}\n  - layer_norm\n  - gelu\n"
    "  - {linear: b, out: 7}\n  - softmax\n",
    "  input: [5, 12]\n  layers:\n  - {gru: r, hidden: 9, last: true}\n  - silu\n"
    "  - {linear: b, out: 3}\n  - tanh\n",
    "  input: [2, 7, 7]\n  layers:\n  - {conv2d: a, out: 9, padding: 1, norm: batch}\n"
    "  - sigmoid\n  - {avg_pool2d: p, kernel: 3, padding: 1}\n  - flatten\n"
    "  - {linear: b, out: 4}\n  - elu\n",
};
static const int presets[] = { -1, DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT8_STATIC_INT8_WEIGHT,
                               DT_INT4_INT4 };

static void export_net(dt__stream *s, char path[TEST_PATH])
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.seed = dt__random_below(s, 1000);
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    dt_module *m = list_net_create(ctx, nets[dt__random_below(s, 3)]);
    dt_tensor *x = list_net_input(m, 0, 8, 2);
    const c_subject subject = { m, &x, 1, 1, "net" };
    TEST_OK(ctx, list_net_quantize(m, presets[dt__random_below(s, 4)], &x, 1, 1));
    c_new_folder(path);
    TEST_OK(ctx, c_export(&subject, NULL, path));
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

/* A compiler with one to three drawn flags. */
static void draw_flags(dt__stream *s, bool clang, char *to, size_t size)
{
    const int n = DT__COUNT_OF(parts), own = 3;
    size_t used = (size_t)snprintf(to, size, "%s -w -O%d", clang ? "clang" : "gcc",
                                   1 + (int)dt__random_below(s, 3));
    for (int i = 1 + (int)dt__random_below(s, 3); i > 0; i--) {
        const int at = (int)dt__random_below(s, (uint64_t)(n + own));
        const char *flag = at < n ? parts[at] : (clang ? parts_of_clang : parts_of_gcc)[at - n];
        used += (size_t)snprintf(to + used, size - used, " %s", flag);
    }
}

/* Whether it compiled. */
static bool check_flags(const char *path, const char *flags)
{
    char *output;
    int status = test_shell(&output, "cd %s && %s net.c net_test.c -o net_test 2>&1", path, flags);
    const bool refused = status != 0;
    TEST_EACH(!refused || strstr(output, "-ffast-math") != NULL ||
                  strstr(output, "constants_are_doubles") != NULL,
              "%s: %s", flags, output);
    free(output);
    if (refused) return false;
    status = test_shell(&output, "cd %s && ./net_test 2>&1", path);
    TEST_EACH(status == 0 ? strstr(output, ": 0 wrong") != NULL
                          : strstr(output, "parts of -ffast-math") != NULL,
              "%s: status %d: %s", flags, status, output);
    free(output);
    return true;
}

START_TEST(parts_of_fast_math)
{
    const bool clang = _i == 1;
    char path[TEST_PATH], flags[400];
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    if (!test_has_compiler(clang ? "clang" : "gcc")) return;
    for (int64_t i = 0; i < test_count(draws); i++) {
        if (i % 3 == 0) export_net(&s, path);
        draw_flags(&s, clang, flags, sizeof flags);
        const bool compiled = check_flags(path, flags);
        const bool finite = strstr(flags, "finite") == NULL;
        TEST_EACH(!clang || !finite || compiled, "%s: refused, though clang can be right", flags);
    }
}
END_TEST

/* Correct objects in a program that flushes denormal numbers; a misaligned arena; and any address
 * of the self-test's memory. */
START_TEST(the_first_run_tells)
{
    static const char main_text[] = "#include \"net.h\"\n#include <stdio.h>\n"
                                    "static double memory[NET_ARENA_BYTES / 8 + 2];\n"
                                    "int main(void) { printf(\"%d %d\\n\", net_selftest(memory), "
                                    "net_selftest((char *)memory + 4)); return 0; }\n";
    char path[TEST_PATH], file[TEST_PATH], *output;
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    export_net(&s, path);
    int status = test_shell(&output,
                            "cd %s && gcc -w -O2 -c net.c net_test.c && gcc -ffast-math net.o "
                            "net_test.o -o linked && ./linked",
                            path);
#if defined __x86_64__
    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(output, "-ffast-math") != NULL, "%s", output);
#endif
    free(output);
    test_join(file, path, "own.c");
    test_write_text(file, main_text);
    status = test_shell(
        &output, "cd %s && cc -w -DNET_NO_MAIN net.c net_test.c own.c -o own && ./own", path);
    ck_assert_int_eq(status, 0);
    ck_assert_str_eq(output, "0 -2\n");
    free(output);
    status = test_shell(&output,
                        "cd %s && sed 's/^static uint8_t memory.*/static char odd = 1;&/; "
                        "s/while (.*used++;/used += 3;/' net_test.c > moved.c && "
                        "cc -w net.c moved.c -o moved && ./moved",
                        path);
    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(output, "not aligned to 8") != NULL, "%s", output);
    free(output);
}
END_TEST

/* The bytes of .rodata of net.o; below 0 where it does not compile. */
static int64_t constants_of(const char *path)
{
    char *output;
    const int status =
        test_shell(&output,
                   "cd %s && clang --target=thumbv7em-none-eabi -mcpu=cortex-m4 -mfloat-abi=soft "
                   "-ffreestanding -Os -w -c net.c -o net.o 2>&1 && readelf -SW net.o | "
                   "sed 's/^ *\\[ *[0-9]*\\]//' | awk '$1 ~ /^.rodata/ { print $5 }'",
                   path);
    int64_t bytes = status == 0 ? 0 : -1;
    for (char *at = output, *end; status == 0; at = end) {
        bytes += (int64_t)strtoll(at, &end, 16);
        if (end == at) break;
    }
    free(output);
    return bytes;
}

/* README.md states at least as much flash as a compiler for a Cortex-M4 makes of the file, up to a
 * few numbers of functions; such a compiler may put descriptors into code. */
START_TEST(flash_is_what_constants_take)
{
    if (!test_has_compiler("clang")) return;
    for (uint64_t seed = 20; seed < 22; seed++) {
        char path[TEST_PATH], file[TEST_PATH];
        dt__stream s = dt__stream_of(seed, DT__FOR_USER);
        export_net(&s, path);
        const int64_t bytes = constants_of(path);
        if (bytes < 0) return; /* a clang without this target */
        test_join(file, path, "README.md");
        char *page = test_read_file(file, NULL);
        const char *at = strstr(page, "| flash | ");
        ck_assert_ptr_nonnull(at);
        const int64_t stated = (int64_t)strtoll(at + strlen("| flash | "), NULL, 10);
        TEST_EACH(bytes <= stated + 24 && stated <= bytes + bytes / 20 + 160,
                  "%lld bytes are stated, %lld are there", (long long)stated, (long long)bytes);
        free(page);
    }
}
END_TEST

/* Where alignment of a double is 4. */
START_TEST(arenas_of_32_bits)
{
    char path[TEST_PATH], *output;
    if (test_shell(&output, "echo 'int main(void) { return 0; }' | clang -m32 -msse2 -include "
                            "string.h -include stdio.h -x c - -o /dev/null 2>&1") != 0) {
        free(output);
        test_skip("no compiler for 32-bit x86");
        return;
    }
    free(output);
    for (uint64_t seed = 40; seed < 42; seed++) {
        dt__stream s = dt__stream_of(seed, DT__FOR_USER);
        export_net(&s, path);
        c_check_folder(path, "clang -m32 -msse2 -mfpmath=sse -O1", "32 bits");
    }
}
END_TEST

Suite *test_export_c_flags_suite(void)
{
    Suite *s = suite_create("export_c_flags");
    TCase *c = tcase_create("flags");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, test_begin, test_end);
    tcase_add_loop_test(c, parts_of_fast_math, 0, 2);
    tcase_add_test(c, the_first_run_tells);
    tcase_add_test(c, flash_is_what_constants_take);
    tcase_add_test(c, arenas_of_32_bits);
    suite_add_tcase(s, c);
    return s;
}
