/* The safetensors reader and writer. */
#include "testing.h"

#include <detent/io.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shared(void)
{
    const char *path = getenv("DETENT_SHARED");
    return path != NULL ? path : DETENT_SOURCE_DIR "/../shared";
}

/* ---- the reference files -------------------------------------------------------------------- */

static void check_shape(const dt_file_entry *e, json_t *want)
{
    ck_assert_str_eq(e->dtype, json_string_value(json_array_get(want, 0)));
    json_t *shape = json_array_get(want, 1);
    ck_assert_int_eq(e->rank, (int)json_array_size(shape));
    for (int i = 0; i < e->rank; i++) {
        ck_assert_int_eq(e->dims[i], json_integer_value(json_array_get(shape, (size_t)i)));
    }
}

/* What the index says of an accepted file: every tensor and every metadata pair. */
static void check_content(const dt_file *file, json_t *about)
{
    json_t *tensors = json_object_get(about, "tensors"), *want;
    json_t *metadata = json_object_get(about, "metadata");
    const char *name;
    if (json_is_integer(json_object_get(tensors, "count"))) {
        ck_assert_int_eq(dt_file_count(file),
                         json_integer_value(json_object_get(tensors, "count")));
    } else {
        ck_assert_int_eq(dt_file_count(file), (int64_t)json_object_size(tensors));
        json_object_foreach(tensors, name, want)
        {
            const dt_file_entry *e = dt_file_find(file, name);
            ck_assert_msg(e != NULL, "no tensor '%s'", name);
            check_shape(e, want);
        }
    }
    ck_assert_int_eq(dt_file_meta_count(file), (int64_t)json_object_size(metadata));
    json_object_foreach(metadata, name, want)
    {
        ck_assert_str_eq(dt_file_meta(file, name), json_string_value(want));
    }
}

static void check_one(dt_ctx *ctx, const char *folder, json_t *about)
{
    const char *file_name = json_string_value(json_object_get(about, "file"));
    const char *want = json_string_value(json_object_get(about, "want"));
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file_name);
    dt_file *file;
    const dt_status status = dt_file_open(ctx, path, &file);
    if (status == DT_OK) {
        ck_assert_msg(strcmp(want, "reject") != 0, "%s was accepted", file_name);
        check_content(file, about);
        dt_file_close(file);
    } else {
        ck_assert_msg(strcmp(want, "accept") != 0, "%s", dt_error(ctx));
        ck_assert_msg(status == DT_ERR_FORMAT, "%s", dt_error(ctx));
    }
    if (getenv("DETENT_TEST_VERBOSE")) printf("%s\n", status ? dt_error(ctx) : file_name);
}

START_TEST(reference_files)
{
    char folder[4096], path[4200];
    snprintf(folder, sizeof folder, "%s/golden/quant/safetensors", shared());
    snprintf(path, sizeof path, "%s/index.json", folder);
    json_t *index = json_load_file(path, 0, NULL), *about;
    if (index == NULL) {
        printf("safetensors: no reference files at %s: skipped\n", folder);
        return;
    }
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    size_t i;
    json_array_foreach(json_object_get(index, "valid"), i, about) check_one(ctx, folder, about);
    json_array_foreach(json_object_get(index, "invalid"), i, about) check_one(ctx, folder, about);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
    json_decref(index);
}
END_TEST

Suite *test_safetensors_suite(void)
{
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("read");
    tcase_add_test(c, reference_files);
    suite_add_tcase(s, c);
    return s;
}
