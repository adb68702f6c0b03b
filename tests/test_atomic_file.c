/* Atomic writing of files: the old file until the commit, the new one after it, nothing beside
 * them. tests/test_safetensors_write.c has what fails (no permission, a full disk) and what stays
 * (links, permissions) of a file written in one call. */
#include "testing.h"

#include "core/system/atomic_file.h"
#include "io/model/new_folder.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new folder with a file "file" of the text "old". */
typedef struct place {
    dt_ctx *ctx;
    char folder[TEST_PATH], path[TEST_PATH];
} place;

static place make_place(void)
{
    place p;
    TEST_OK(NULL, dt_ctx_create(&p.ctx, NULL));
    test_folder(p.folder);
    test_join(p.path, p.folder, "file");
    test_write_text(p.path, "old");
    return p;
}

/* The descriptor that the next file would get. */
static int next_descriptor(void)
{
    const int d = dup(STDERR_FILENO);
    ck_assert_int_ge(d, 0);
    close(d);
    return d;
}

/* The number of files in the folder. */
static int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    int n = -2; /* . and .. */
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

static void check_text(const char *path, const char *want)
{
    char *text = test_read_file(path, NULL);
    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(the_old_file_stays_until_the_commit)
{
    place p = make_place();
    dt__new_file f;
    TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &f));
    TEST_OK(p.ctx, dt__file_write(&f, "ne", 2));
    TEST_OK(p.ctx, dt__file_write(&f, "w", 1));
    check_text(p.path, "old");
    ck_assert_int_eq(count_files(p.folder), 2);
    TEST_OK(p.ctx, dt__file_commit(&f));
    check_text(p.path, "new");
    ck_assert_int_eq(count_files(p.folder), 1);
    dt__file_abandon(&f); /* does nothing after a commit */
    check_text(p.path, "new");
    dt_ctx_free(p.ctx);
}
END_TEST

START_TEST(no_descriptor_is_left)
{
    place p = make_place();
    const int before = next_descriptor();
    ck_assert_int_eq(dt__sync_around(p.path), 0);
    ck_assert_int_eq(next_descriptor(), before);
    dt_ctx_free(p.ctx);
}
END_TEST

START_TEST(a_file_may_be_replaced_without_waiting)
{
    place p = make_place();
    const dt__span parts[] = { { "ne", 2 }, { "w", 1 } };
    TEST_OK(p.ctx, dt__file_replace_unsynced(p.ctx, p.path, parts, 2));
    check_text(p.path, "new");
    ck_assert_int_eq(count_files(p.folder), 1);
    dt_ctx_free(p.ctx);
}
END_TEST

START_TEST(what_is_abandoned_leaves_nothing)
{
    place p = make_place();
    dt__new_file f;
    TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &f));
    TEST_OK(p.ctx, dt__file_write(&f, "new", 3));
    for (int i = 0; i < 2; i++) dt__file_abandon(&f);
    check_text(p.path, "old");
    ck_assert_int_eq(count_files(p.folder), 1);
    dt_ctx_free(p.ctx);
}
END_TEST

/* Two writers at once have two temporary files; the later commit wins. */
START_TEST(two_writers_do_not_mix)
{
    place p = make_place();
    dt__new_file a, b;
    TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &a));
    TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &b));
    ck_assert(dt__file_is_same(&a, &b));
    TEST_OK(p.ctx, dt__file_write(&a, "a", 1));
    TEST_OK(p.ctx, dt__file_write(&b, "bb", 2));
    TEST_OK(p.ctx, dt__file_commit(&b));
    check_text(p.path, "bb");
    TEST_OK(p.ctx, dt__file_commit(&a));
    check_text(p.path, "a");
    ck_assert_int_eq(count_files(p.folder), 1);
    dt_ctx_free(p.ctx);
}
END_TEST

/* A relative link into another folder is written through, and the new file has the permissions of
 * the old one, whatever the umask. */
START_TEST(links_are_followed)
{
    place p = make_place();
    dt__new_file f, g;
    char sub[TEST_PATH], link[TEST_PATH], other[TEST_PATH];
    test_join(sub, p.folder, "sub");
    test_join(link, sub, "link");
    test_join(other, sub, "other");
    ck_assert_int_eq(mkdir(sub, 0777), 0);
    ck_assert_int_eq(symlink("../file", link), 0);
    ck_assert_int_eq(chmod(p.path, 0606), 0);
    const mode_t mask = umask(077);
    TEST_OK(p.ctx, dt__file_begin(p.ctx, link, &f));
    TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &g));
    ck_assert(dt__file_is_same(&f, &g));
    dt__file_abandon(&g);
    TEST_OK(p.ctx, dt__file_begin(p.ctx, other, &g));
    ck_assert(!dt__file_is_same(&f, &g));
    dt__file_abandon(&g);
    TEST_OK(p.ctx, dt__file_write(&f, "new", 3));
    TEST_OK(p.ctx, dt__file_commit(&f));
    umask(mask);
    struct stat about;
    ck_assert(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    ck_assert(lstat(p.path, &about) == 0 && (about.st_mode & 07777) == 0606);
    check_text(p.path, "new");
    ck_assert_int_eq(count_files(p.folder), 2);
    ck_assert_int_eq(count_files(sub), 1);
    dt_ctx_free(p.ctx);
}
END_TEST

/* Names as long as the file system takes; and, of one letter more, a message with the path. */
START_TEST(names_are_as_long_as_they_may)
{
    place p = make_place();
    dt__new_file f;
    char name[300], path[TEST_PATH];
    memset(name, 'n', sizeof name);
    name[255] = 0;
    test_join(path, p.folder, name);
    TEST_OK(p.ctx, dt__file_replace(p.ctx, path, &(const dt__span){ "new", 3 }, 1));
    check_text(path, "new");
    name[255] = 'n';
    name[256] = 0;
    test_join(path, p.folder, name);
    TEST_FAILS(p.ctx, DT_ERR_IO, "too long", dt__file_begin(p.ctx, path, &f));
    ck_assert_ptr_nonnull(strstr(dt_error(p.ctx), "nnn: cannot write"));
    ck_assert_int_eq(count_files(p.folder), 2);
    dt_ctx_free(p.ctx);
}
END_TEST

/* Without a folder in the path it is the working folder; with "/" in front the root. */
START_TEST(paths_need_no_folder)
{
    place p = make_place();
    dt__new_file a, b;
    ck_assert_int_eq(chdir(p.folder), 0);
    TEST_OK(p.ctx, dt__file_begin(p.ctx, "new", &a));
    TEST_OK(p.ctx, dt__file_begin(p.ctx, "./new", &b));
    ck_assert(dt__file_is_same(&a, &b));
    dt__file_abandon(&b);
    TEST_OK(p.ctx, dt__file_write(&a, "new", 3));
    TEST_OK(p.ctx, dt__file_commit(&a));
    check_text("new", "new");
    if (access("/", W_OK) == 0) {
        TEST_OK(p.ctx, dt__file_begin(p.ctx, "/detent-test-of-the-root", &a));
        dt__file_abandon(&a);
    }
    ck_assert_int_eq(chdir("/"), 0);
    dt_ctx_free(p.ctx);
}
END_TEST

/* A leaked descriptor would be found at the end. */
START_TEST(no_descriptor_leaks)
{
    place p = make_place();
    dt__new_file f;
    char none[TEST_PATH];
    const int before = count_files("/proc/self/fd");
    test_join(none, p.folder, "none/file");
    for (int i = 0; i < 3; i++) {
        TEST_FAILS(p.ctx, DT_ERR_IO, "cannot", dt__file_begin(p.ctx, none, &f));
        TEST_FAILS(p.ctx, DT_ERR_IO, "cannot", dt__file_begin(p.ctx, p.folder, &f));
        TEST_OK(p.ctx, dt__file_begin(p.ctx, p.path, &f));
        dt__file_abandon(&f);
        TEST_OK(p.ctx, dt__file_replace(p.ctx, p.path, NULL, 0));
    }
    check_text(p.path, "");
    ck_assert_int_eq(count_files("/proc/self/fd"), before);
    dt_ctx_free(p.ctx);
}
END_TEST

/* ---- folders --------------------------------------------------------------------------------- */

static void make_folder(const place *p, const char *name)
{
    char path[TEST_PATH], file[TEST_PATH];
    test_join(path, p->folder, name);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    test_join(file, path, "part");
    test_write_text(file, "half");
}

/* Temporary folders of killed programs are removed; those in use, and other folders, are not. */
START_TEST(folders_that_were_left_go)
{
    place p = make_place();
    char path[TEST_PATH];
    dt__new_folder first, second;
    test_join(path, p.folder, "out");
    make_folder(&p, "out.tmp-123-0");
    make_folder(&p, "out.tmp-99999999-12");
    make_folder(&p, "out.tmp-123-0.old");
    make_folder(&p, "out.tmp-notes-1");
    make_folder(&p, "about.tmp-1-1");
    TEST_OK(p.ctx, dt__folder_begin(p.ctx, path, &first));
    ck_assert_int_eq(count_files(p.folder), 1 + 3 + 1);
    TEST_OK(p.ctx, dt__folder_begin(p.ctx, path, &second));
    ck_assert_int_eq(count_files(p.folder), 1 + 3 + 2);
    test_write_text(dt__folder_file(&second, "a"), "one");
    TEST_OK(p.ctx, dt__folder_commit(&second));
    dt__folder_abandon(&second);
    dt__folder_abandon(&first);
    ck_assert_int_eq(count_files(p.folder), 1 + 3 + 1);
    test_join(path, p.folder, "out/a");
    check_text(path, "one");
    dt_ctx_free(p.ctx);
}
END_TEST

Suite *test_atomic_file_suite(void)
{
    Suite *s = suite_create("atomic_file");
    TCase *c = tcase_create("atomic_file");
    tcase_add_test(c, the_old_file_stays_until_the_commit);
    tcase_add_test(c, no_descriptor_is_left);
    tcase_add_test(c, a_file_may_be_replaced_without_waiting);
    tcase_add_test(c, what_is_abandoned_leaves_nothing);
    tcase_add_test(c, two_writers_do_not_mix);
    tcase_add_test(c, links_are_followed);
    tcase_add_test(c, names_are_as_long_as_they_may);
    tcase_add_test(c, paths_need_no_folder);
    tcase_add_test(c, no_descriptor_leaks);
    tcase_add_test(c, folders_that_were_left_go);
    suite_add_tcase(s, c);
    return s;
}
