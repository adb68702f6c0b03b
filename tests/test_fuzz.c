/* The fuzz targets (tests/fuzz) on inputs that are known: their seeds, and tests/fuzz/corpus, where
 * inputs are that once broke a promise, or reach code that seeds do not. DETENT_FUZZ_SEEDS names a
 * folder that keeps the seeds: FOLDER/TARGET/NAME, for scripts/fuzz. */
#include "fuzz/fuzz.h"
#include "testing.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

/* Runs the target on every file of a folder, cut at several places too; returns how many. */
static int replay(const fuzz_target *t, const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    if (d == NULL) return 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[TEST_PATH];
        size_t size;
        if (e->d_name[0] == '.') continue;
        test_join(path, folder, e->d_name);
        char *data = test_read_file(path, &size);
        for (size_t part = 0; part <= 8; part++) {
            const size_t bytes = size * part / 8;
            char *own = malloc(bytes == 0 ? 1 : bytes); /* ends where memory ends */
            ck_assert_ptr_nonnull(own);
            memcpy(own, data, bytes);
            t->run((const uint8_t *)own, bytes);
            free(own);
        }
        free(data);
        n++;
    }
    closedir(d);
    return n;
}

START_TEST(known_inputs)
{
    const fuzz_target *t = fuzz_targets[_i];
    const char *kept = getenv("DETENT_FUZZ_SEEDS");
    char folder[TEST_PATH], corpus[TEST_PATH];
    if (kept == NULL) test_folder(folder);
    else test_join(folder, kept, t->name);
    mkdir(folder, 0777);
    t->seeds(&(fuzz_seeds){ folder });
    ck_assert_msg(replay(t, folder) > 0, "%s has no seeds", t->name);
    test_join(corpus, DETENT_SOURCE_DIR "/tests/fuzz/corpus", t->name);
    replay(t, corpus);
}
END_TEST

Suite *test_fuzz_suite(void)
{
    Suite *s = suite_create("fuzz");
    TCase *c = tcase_create("known inputs");
    int n = 0;
    while (fuzz_targets[n] != NULL) n++;
    tcase_add_loop_test(c, known_inputs, 0, n);
    suite_add_tcase(s, c);
    return s;
}
