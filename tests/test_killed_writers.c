/* Temporary files of killed programs (atomic_file.h) are removed by the next program that writes
 * the same file; those of running programs never are. */
#define _DEFAULT_SOURCE /* flock */
#include "testing.h"

#include "core/system/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static dt_ctx *ctx;

/* In a folder of its own. */
static void setup(void)
{
    char folder[TEST_PATH];
    test_folder(folder);
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
}

static void teardown(void) { dt_ctx_free(ctx); }

static void replace(const char *path)
{
    const dt__span text = { "new", 3 };
    TEST_OK(ctx, dt__file_replace(ctx, path, &text, 1));
}

static int count_files(void)
{
    DIR *d = opendir(".");
    ck_assert_ptr_nonnull(d);
    int n = -2; /* . and .. */
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

START_TEST(what_killed_programs_left_is_removed)
{
    static const char *const left[] = { ".detent-x-0.tmp", ".detent-x-1.tmp", ".detent-x-3.tmp" };
    for (int i = 0; i < 3; i++) test_write_text(left[i], "half a fi");
    test_write_text(".detent-y-0.tmp", "of another file");
    replace("x");
    for (int i = 0; i < 3; i++) ck_assert_msg(!test_file_exists(left[i]), "%s", left[i]);
    ck_assert(test_file_exists(".detent-y-0.tmp"));
    ck_assert_int_eq(count_files(), 2);
}
END_TEST

/* The writer is killed between its creation of the file and the rename. */
START_TEST(a_writer_that_is_killed)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dt__new_file file;
        if (dt__file_begin(ctx, "x", &file) == DT_OK && dt__file_write(&file, "ha", 2) == DT_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(count_files(), 1);
    replace("x");
    ck_assert_int_eq(count_files(), 1);
    ck_assert(test_file_exists("x"));
}
END_TEST

/* The temporary file for a file without write permission has that file's permissions, and is
 * removed all the same. Root may write all files, so the test becomes another user. */
START_TEST(files_that_cannot_be_written_are_removed)
{
    test_write_text(".detent-x-0.tmp", "half");
    test_write_text(".detent-y-0.tmp", "half");
    ck_assert_int_eq(chmod(".detent-x-0.tmp", 0444) | chmod(".detent-y-0.tmp", 0400), 0);
    const bool root = geteuid() == 0;
    const uid_t other = 65534;
    for (int i = 0; i < 3 && root; i++) {
        static const char *const paths[] = { ".", ".detent-x-0.tmp", ".detent-y-0.tmp" };
        ck_assert_int_eq(chown(paths[i], other, other), 0);
    }
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (root && setuid(other) != 0) _exit(2);
        const dt__span text = { "new", 3 };
        const dt_status s = dt__file_replace(ctx, "x", &text, 1);
        dt__file_remove_left(".");
        _exit(s == DT_OK ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(what_is_being_written_stays)
{
    dt__new_file first, second;
    TEST_OK(ctx, dt__file_begin(ctx, "x", &first));
    TEST_OK(ctx, dt__file_begin(ctx, "x", &second));
    ck_assert_str_ne(first.temporary, second.temporary);
    replace("x");
    dt__file_remove_left(".");
    TEST_OK(ctx, dt__file_write(&first, "first", 5));
    TEST_OK(ctx, dt__file_write(&second, "second", 6));
    TEST_OK(ctx, dt__file_commit(&second));
    TEST_OK(ctx, dt__file_commit(&first));
    char *text = test_read_file("x", NULL);
    ck_assert_str_eq(text, "first");
    free(text);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* A matching process id proves nothing: this one belongs to another running program. */
START_TEST(the_lock_decides)
{
    const int theirs = open(".detent-x-1.tmp", O_WRONLY | O_CREAT, 0666);
    ck_assert_int_eq(flock(theirs, LOCK_EX), 0);
    replace("x");
    ck_assert(test_file_exists(".detent-x-1.tmp"));
    close(theirs);
    replace("x");
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(all_of_a_folder_of_a_run)
{
    test_write_text(".detent-x-0.tmp", "");
    test_write_text(".detent-y-77.tmp", "");
    test_write_text(".detent-.tmp", ""); /* a file of no program */
    test_write_text(".detent-x-0", "");
    test_write_text("detent-x-0.tmp", "");
    ck_assert_int_eq(symlink("detent-x-0.tmp", ".detent-z-0.tmp"), 0);
    ck_assert_int_eq(mkfifo(".detent-f-0.tmp", 0666), 0);
    dt__file_remove_left(".");
    dt__file_remove_left("no such folder");
    ck_assert(!test_file_exists(".detent-x-0.tmp") && !test_file_exists(".detent-y-77.tmp"));
    ck_assert_int_eq(count_files(), 5);
}
END_TEST

START_TEST(long_names)
{
    char name[256], left[300];
    memset(name, 'n', 255);
    name[255] = 0;
    snprintf(left, sizeof left, ".detent-%.200s-0.tmp", name);
    test_write_text(left, "half");
    replace(name);
    ck_assert(test_file_exists(name) && !test_file_exists(left));
    memcpy(name + 199, "\xc3\xa9", 2); /* one character at byte 199 and 200 */
    snprintf(left, sizeof left, ".detent-%.199s-0.tmp", name);
    test_write_text(left, "half");
    replace(name);
    ck_assert(test_file_exists(name) && !test_file_exists(left));
    ck_assert_int_eq(count_files(), 2);
}
END_TEST

/* Four programs write one file as fast as they can, and none removes another's temporary file as
 * left over. */
START_TEST(writers_of_one_file)
{
    enum { WRITERS = 4 };
    pid_t child[WRITERS];
    const int64_t rounds =
        test_count((test_draws){ .usual = 20000, .sanitized = 200, .quick = 500 });
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        ck_assert_int_ge(child[i], 0);
        if (child[i] > 0) continue;
        const dt__span text = { "a text", 6 };
        for (int64_t n = 0; n < rounds; n++) {
            if (dt__file_replace_unsynced(ctx, "x", &text, 1) == DT_OK) continue;
            fprintf(stderr, "%s\n", dt_error(ctx));
            _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        ck_assert_msg(status == 0, "writer %d: %d", i, status);
    }
    char *text = test_read_file("x", NULL);
    ck_assert_str_eq(text, "a text");
    free(text);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

Suite *test_killed_writers_suite(void)
{
    Suite *s = suite_create("killed_writers");
    TCase *c = tcase_create("temporary files");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, what_killed_programs_left_is_removed);
    tcase_add_test(c, a_writer_that_is_killed);
    tcase_add_test(c, files_that_cannot_be_written_are_removed);
    tcase_add_test(c, what_is_being_written_stays);
    tcase_add_test(c, the_lock_decides);
    tcase_add_test(c, all_of_a_folder_of_a_run);
    tcase_add_test(c, long_names);
    tcase_add_test(c, writers_of_one_file);
    suite_add_tcase(s, c);
    return s;
}
