/* The helpers of testing.h: a failing allocator that does not fail, or a comparison that accepts
 * everything, would make other suites pass wrongly. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_allocation_fails_once)
{
    test_memory m = { .fail_at = 2 };
    const dt_allocator a = test_allocator(&m);
    void *first = a.allocate(a.user, 100, 64);
    ck_assert_ptr_nonnull(first);
    ck_assert_uint_eq((uintptr_t)first % 64, 0);
    ck_assert_ptr_null(a.allocate(a.user, 100, 64));
    ck_assert_int_eq(m.live, 1);
    ck_assert_uint_eq(m.bytes, 100);
    a.release(a.user, first, 100);
    ck_assert_int_eq(m.live, 0);
}
END_TEST

static dt_status two_tensors(dt_ctx *ctx, void *user)
{
    (void)user;
    dt_tensor *x = NULL, *y = NULL;
    const int64_t dims[] = { 3, 1000 };
    dt_status status = dt_tensor_create(ctx, DT_F32, 2, dims, &x);
    if (status == DT_OK) status = dt_tensor_create(ctx, DT_F64, 2, dims, &y);
    dt_tensor_free(y);
    dt_tensor_free(x);
    return status;
}

START_TEST(a_scenario_survives_every_failure)
{
    ck_assert_int_ge(test_every_allocation(two_tensors, NULL), 4);
}
END_TEST

START_TEST(malloc_fails_at_the_given_call)
{
    if (!test_malloc_can_fail()) return;
    test_malloc_fail_at(2);
    char *volatile first = malloc(8); /* volatile: the compiler may not drop the pair */
    char *volatile second = strdup("through the C library");
    char *volatile third = strdup("again");
    const int64_t calls = test_malloc_calls();
    test_malloc_fail_at(0);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(second);
    ck_assert_ptr_nonnull(third);
    ck_assert_int_eq(calls, 3);
    free(first);
    free(third);
}
END_TEST

START_TEST(closeness)
{
    ck_assert(test_near(1.0, 1.0 + 1e-9, 0, 1e-8));
    ck_assert(!test_near(1.0, 1.0 + 1e-7, 0, 1e-8));
    ck_assert(test_near((double)NAN, (double)NAN, 0, 0));
    ck_assert(!test_near((double)NAN, 0, 1, 1));
    ck_assert(!test_near((double)INFINITY, 1, 1, 1));
    const float a[] = { 1, 2, 3 }, b[] = { 1, 2, 4 };
    ck_assert_int_eq(test_first_far_f32(a, b, 3, 0.5, 0), 2);
    ck_assert_int_eq(test_first_far_f32(a, a, 3, 0, 0), -1);
}
END_TEST

START_TEST(files_and_folders)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "a.bin");
    ck_assert(!test_file_exists(path));
    test_write_file(path, "a\0b", 3);
    size_t size;
    char *data = test_read_file(path, &size);
    ck_assert_uint_eq(size, 3);
    ck_assert_mem_eq(data, "a\0b", 4);
    free(data);
    ck_assert_int_eq(test_shell(&data, "cat %s | wc -c; exit 7", path), 7);
    ck_assert_int_eq(atoi(data), 3);
    free(data);
}
END_TEST

Suite *test_testing_suite(void)
{
    Suite *s = suite_create("testing");
    TCase *c = tcase_create("helpers");
    tcase_add_test(c, every_allocation_fails_once);
    tcase_add_test(c, a_scenario_survives_every_failure);
    tcase_add_test(c, malloc_fails_at_the_given_call);
    tcase_add_test(c, closeness);
    tcase_add_test(c, files_and_folders);
    suite_add_tcase(s, c);
    return s;
}
