/* Arrays in files: what the tests' writers wrote is read back; truncated, mutated and hostile files
 * are refused, and no read leaves the file. */
#include "array_files.h"
#include "data/files/array_file.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float numbers[6] = { 0, 1, -2, 3.5F, 1e-3F, 65504 };

/* ---- reading back ------------------------------------------------------------------------- */

typedef struct opened {
    char path[TEST_PATH + 40];
    dt__array_file file;
} opened;

static dt_status open_bytes(dt_ctx *ctx, opened *o, const char *name, const file_bytes *f)
{
    static char folder[TEST_PATH];
    if (folder[0] == 0) test_folder(folder);
    const char *part = strrchr(name, ':');
    const int length = part == NULL ? (int)strlen(name) : (int)(part - name);
    char path[TEST_PATH + 40];
    snprintf(o->path, sizeof o->path, "%s/%s", folder, name);
    snprintf(path, sizeof path, "%s/%.*s", folder, length, name);
    test_write_file(path, f->v, f->n);
    return dt__array_file_open(ctx, o->path, &o->file);
}

/* Whether the numbers are [2, 3] of those above, and inside of the file. */
static void assert_numbers(dt__array_file *a)
{
    float value[6];
    ck_assert(a->rank == 2 && a->dims[0] == 2 && a->dims[1] == 3);
    ck_assert_int_eq(a->dtype, DT_ARRAY_F32);
    dt__array_dtype_of(a->dtype)->to_f32(a->data, 6, value);
    ck_assert_int_eq(memcmp(value, numbers, sizeof value), 0);
}

#define HEADER "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"

/* One file of each format and form, with the numbers above. */
enum { FORMS = 9 };

static file_bytes form_of(int i, const char **name)
{
    static const char *const names[FORMS] = { "a.npy",       "b.npy",           "c.npy",
                                              "d.npz",       "e.npz:x",         "f.npz:x",
                                              "g.npz:x.npy", "h.safetensors:x", "i.safetensors" };
    *name = names[i];
    if (i < 3) return npy_file(i + 1, HEADER, numbers, sizeof numbers);
    if (i >= 7) {
        static const int16_t other = 5;
        if (i == 8) {
            return safetensors_file("{\"only\":{\"data_offsets\":[0,24],\"shape\":[2,3],"
                                    "\"dtype\":\"F32\"}}   ",
                                    numbers, sizeof numbers, 4);
        }
        file_bytes data = { NULL, 0 };
        file_numbers(&data, &other, sizeof other, 2);
        file_numbers(&data, numbers, sizeof numbers, 4);
        file_bytes f =
            safetensors_file("{\"__metadata__\":{\"a\":\"b\"},"
                             "\"y\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[0,2]},"
                             "\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[2,26]}}",
                             data.v, data.n, 1);
        file_free(&data);
        return f;
    }
    static const uint8_t y[2] = { 1, 0 };
    zip_member m[2] = {
        { "y.npy", npy_file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", y, 2),
          0 },
        { "x.npy", npy_file(1, HEADER, numbers, sizeof numbers), i == 4 || i == 6 ? 8 : 0 },
    };
    file_bytes f = i == 3 ? zip_file(m + 1, 1, 0) : zip_file(m, 2, i >= 5);
    file_free(&m[0].bytes);
    file_free(&m[1].bytes);
    return f;
}

START_TEST(forms)
{
    dt_ctx *ctx = sample_context(1);
    const char *name;
    file_bytes f = form_of(_i, &name);
    opened o;
    TEST_OK(ctx, open_bytes(ctx, &o, name, &f));
    assert_numbers(&o.file);
    dt__array_file_close(&o.file);
    file_free(&f);
    dt_ctx_free(ctx);
}
END_TEST

/* Every dtype of .npy and safetensors, with the number 3. */
START_TEST(dtypes)
{
    static const struct {
        const char *npy, *safetensors;
        int dtype;
        unsigned char bytes[8]; /* of the file */
    } all[] = {
        { "<f4", "F32", DT_ARRAY_F32, { 0, 0, 0x40, 0x40 } },
        { "<f8", "F64", DT_ARRAY_F64, { 0, 0, 0, 0, 0, 0, 8, 0x40 } },
        { "<f2", "F16", DT_ARRAY_F16, { 0, 0x42 } },
        { "|u1", "U8", DT_ARRAY_U8, { 3 } },
        { "|i1", "I8", DT_ARRAY_I8, { 3 } },
        { "|b1", "BOOL", DT_ARRAY_U8, { 3 } },
        { "<u2", "U16", DT_ARRAY_U16, { 3 } },
        { "<i2", "I16", DT_ARRAY_I16, { 3 } },
        { "=i4", "I32", DT_ARRAY_I32, { 3 } },
        { "<i8", "I64", DT_ARRAY_I64, { 3 } },
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        const int bytes = dt__array_dtype_of(all[i].dtype)->bytes;
        char header[200];
        for (int format = 0; format < 2; format++) {
            snprintf(header, sizeof header,
                     format == 0
                         ? "{\"shape\": (1,), 'fortran_order': False, 'descr': '%s'}"
                         : "{\"x\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,%d]}}",
                     format == 0 ? all[i].npy : all[i].safetensors, bytes);
            file_bytes f =
                format == 0 ? npy_file(1, header, NULL, 0) : safetensors_file(header, NULL, 0, 1);
            file_put(&f, all[i].bytes, (size_t)bytes);
            opened o;
            TEST_OK(ctx, open_bytes(ctx, &o, format == 0 ? "d.npy" : "d.safetensors:x", &f));
            ck_assert_int_eq(o.file.dtype, all[i].dtype);
            ck_assert_int_eq(o.file.rank, format == 0);
            ck_assert(dt__array_dtype_of(o.file.dtype)->at(o.file.data) == 3);
            dt__array_file_close(&o.file);
            file_free(&f);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(waves)
{
    static const int16_t samples[8] = { 0, -32768, 32767, 1, 2, 3, 4, 5 };
    dt_ctx *ctx = sample_context(1);
    for (int channels = 1; channels <= 2; channels++) {
        file_bytes f = wav_file(channels, 16000, samples, 8 / channels);
        opened o;
        TEST_OK(ctx, open_bytes(ctx, &o, "w.wav", &f));
        ck_assert(o.file.rank == 2 && o.file.dims[0] == 8 / channels);
        ck_assert(o.file.dims[1] == channels && o.file.rate == 16000);
        ck_assert_int_eq(memcmp(o.file.data, samples, sizeof samples), 0);
        dt__array_file_close(&o.file);
        file_free(&f);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- bad files ---------------------------------------------------------------------------- */

/* Opens a damaged file. Whatever is accepted must lie inside of it. */
static bool accepts(dt_ctx *ctx, const char *name, const file_bytes *f)
{
    opened o;
    const dt_status status = open_bytes(ctx, &o, name, f);
    dt__array_file *a = &o.file;
    size_t bytes = 0;
    if (status == DT_OK) {
        ck_assert(a->rank >= 0 && a->rank <= DT_MAX_RANK && dt__array_bytes(a, &bytes));
        const uint8_t *begin = a->source.storage != NULL ? a->source.storage->data : a->source.map;
        const size_t size =
            a->source.storage != NULL ? a->source.storage->bytes : a->source.map_bytes;
        TEST_EACH(a->data >= begin && bytes <= size && a->data + bytes <= begin + size,
                  "%s: numbers outside of the file", name);
    } else {
        TEST_EACH(status == DT_ERR_FORMAT || status == DT_ERR_UNSUPPORTED || status == DT_ERR_NOMEM,
                  "%s: %s", name, dt_status_name(status));
        TEST_EACH(strstr(dt_error(ctx), "/") != NULL, "no file named: %s", dt_error(ctx));
    }
    dt__array_file_close(a);
    return status == DT_OK;
}

/* Every truncation is refused, except one between the samples of a recording, which is read. */
START_TEST(truncated)
{
    static const int16_t samples[4] = { 1, 2, 3, 4 };
    dt_ctx *ctx = sample_context(1);
    const char *name = "w.wav";
    file_bytes f = _i == FORMS ? wav_file(2, 8000, samples, 2) : form_of(_i, &name);
    for (size_t n = 0; n < f.n; n++) {
        const file_bytes cut = { f.v, n };
        const bool some = _i == FORMS && n >= f.n - 4; /* a sample of both channels */
        TEST_EACH(accepts(ctx, name, &cut) == some, "%s: %zu of %zu bytes", name, n, f.n);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    file_free(&f);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(mutated)
{
    static const int16_t samples[4] = { 1, 2, 3, 4 };
    dt_ctx *ctx = sample_context(1);
    const char *name = "w.wav";
    const int64_t draws = test_count((test_draws){ .usual = 3000, .sanitized = 1500 });
    file_bytes f = _i == FORMS ? wav_file(2, 8000, samples, 2) : form_of(_i, &name);
    int64_t read = 0;
    uint32_t word[4];
    for (int64_t i = 0; i < draws; i++) {
        file_bytes copy = { NULL, 0 };
        file_put(&copy, f.v, f.n);
        dt__philox(11, (uint64_t)i, word);
        for (uint32_t k = 0; k <= word[3] % 3; k++) {
            static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff, '9', '(', '\'' };
            const uint32_t at = word[k] % (uint32_t)f.n;
            const uint32_t bit = 1u << (word[k] >> 27 & 7);
            copy.v[at] =
                (unsigned char)(word[k] >> 30 == 0 ? copy.v[at] ^ bit : values[word[k] >> 27 & 7]);
        }
        read += accepts(ctx, name, &copy);
        file_free(&copy);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    printf("array_files: %lld of %lld mutations of %s can be read\n", (long long)read,
           (long long)draws, name);
    file_free(&f);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(hostile_npy)
{
#define DESCR "{'descr': '<f4', 'fortran_order': False, "
    static const struct {
        const char *header, *text;
    } cases[] = {
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "x.astype('<f4')" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }",
          "dtype '<c8'; expected float16" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "y.astype(str)" },
        { "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<u8'" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "structured" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "ascontiguousarray" },
        { DESCR "'shape': (2, 4), }", "declares 32 bytes of numbers, but 24 follow" },
        { DESCR "'shape': (2, 2), }", "declares 16 bytes of numbers, but 24 follow" },
        { DESCR "'shape': (9223372036854775807, 2), }", "larger than memory" },
        { DESCR "'shape': (3037000500, 3037000500), }", "larger than memory" },
        { DESCR "'shape': (99999999999999999999, 0), }", "an extent below 2^63" },
        { DESCR "'shape': (-2, 3), }", "an extent" },
        { DESCR "'shape': (1, 1, 1, 1, 1, 1, 1, 2, 3), }", "more than 8 dimensions" },
        { DESCR "'shape': (2, 3) 5}", "expected '}'" },
        { DESCR "'shape': 6}", "a shape" },
        { DESCR "}", "descr, fortran_order and shape" },
        { DESCR "'shape': (2, 3), 'more': 1}", "each once" },
        { DESCR "'shape': (2, 3), 'shape': (2, 3)}", "each once" },
        { DESCR "'shape': (2, 3)} x", "the end of the header" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "True or False" },
        { "{'descr': '<f4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "the end of a string" },
    };
    dt_ctx *ctx = sample_context(1);
    opened o;
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        file_bytes f = npy_file(1, cases[i].header, numbers, sizeof numbers);
        const dt_status status = open_bytes(ctx, &o, "h.npy", &f);
        ck_assert_msg(status == DT_ERR_FORMAT || status == DT_ERR_UNSUPPORTED, "%d: %d", i, status);
        ck_assert_msg(strstr(dt_error(ctx), cases[i].text) != NULL, "%d: %s", i, dt_error(ctx));
        dt__array_file_close(&o.file);
        file_free(&f);
    }
    file_bytes f = npy_file(4, HEADER, numbers, sizeof numbers);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "version 4.0", open_bytes(ctx, &o, "h.npy", &f));
    dt__array_file_close(&o.file);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, ".npy, .npz", open_bytes(ctx, &o, "h.bin", &f));
    dt__array_file_close(&o.file);
    TEST_FAILS(ctx, DT_ERR_IO, "nowhere.npy", dt__array_file_open(ctx, "/nowhere.npy", &o.file));
    dt__array_file_close(&o.file);
    file_free(&f);
    dt_ctx_free(ctx);
}
END_TEST

/* A member whose directory says more than deflate can make, and one that inflates to more. */
START_TEST(bombs)
{
    enum { ZEROS = 1 << 20 };
    char *zeros = calloc(1, ZEROS);
    dt_ctx *ctx = sample_context(1);
    opened o;
    for (int i = 0; i < 2; i++) {
        zip_member m = {
            "x.npy", npy_file(1, i == 0 ? HEADER : DESCR "'shape': (268435456,), }", zeros, ZEROS),
            8
        };
        file_bytes f = zip_file(&m, 1, 0);
        dt_memory_reset_peak(ctx);
        TEST_FAILS(ctx, DT_ERR_FORMAT, "of numbers, but 1048576 follow it",
                   open_bytes(ctx, &o, "b.npz", &f));
        ck_assert_uint_lt(dt_memory_of(ctx).peak, 1 << 18);
        dt__array_file_close(&o.file);
        file_free(&m.bytes);
        file_free(&f);
    }
    free(zeros);
    dt_ctx_free(ctx);
}
END_TEST

/* A valid archive of zeros may be a hundredth of its array up to 16 MiB, but not beyond. */
START_TEST(packed_too_well)
{
    enum { MOST = 1 << 24 };
    char *zeros = calloc(1, MOST + 1000), header[100];
    dt_ctx *ctx = sample_context(1);
    opened o;
    for (int i = 0; i < 2; i++) {
        const int n = i == 0 ? MOST - 1000 : MOST + 1000;
        snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}",
                 n);
        zip_member m = { "x.npy", npy_file(1, header, zeros, (size_t)n), 8 };
        file_bytes f = zip_file(&m, 1, 0);
        dt_memory_reset_peak(ctx);
        const dt_status s = open_bytes(ctx, &o, "b.npz", &f);
        if (i == 0) {
            ck_assert_msg(s == DT_OK && o.file.dims[0] == n, "%s", dt_error(ctx));
        } else {
            ck_assert_int_eq(s, DT_ERR_FORMAT);
            ck_assert_msg(strstr(dt_error(ctx), "numpy.savez") != NULL, "%s", dt_error(ctx));
            ck_assert_uint_lt(dt_memory_of(ctx).peak, 1 << 18);
        }
        dt__array_file_close(&o.file);
        file_free(&m.bytes);
        file_free(&f);
    }
    free(zeros);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(hostile_archives)
{
    dt_ctx *ctx = sample_context(1);
    const char *name;
    opened o;
    file_bytes f = form_of(4, &name);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "b.npz:NAME says which one", open_bytes(ctx, &o, "b.npz", &f));
    dt__array_file_close(&o.file);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "no array of this name; there are ",
               open_bytes(ctx, &o, "b.npz:z", &f));
    dt__array_file_close(&o.file);
    file_free(&f);
    f = form_of(7, &name);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "2 arrays (", open_bytes(ctx, &o, "b.safetensors", &f));
    dt__array_file_close(&o.file);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "no array of this name; there are y, x",
               open_bytes(ctx, &o, "b.safetensors:z", &f));
    dt__array_file_close(&o.file);
    file_free(&f);
    static const char *const headers[][2] = {
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,28]}}", "0 to 28" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,4]}}", "8 to 4" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,24]}}", "0 to 24" },
        { "{\"x\":{\"dtype\":\"BF16\",\"shape\":[12],\"data_offsets\":[0,24]}}", "BF16" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[6]}}", "dtype, shape and data_offsets" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,24]}}",
          "do not fit" },
        { "{\"x\":[]}", "'{'" },
        { "[]", "'{'" },
    };
    for (int i = 0; i < DT__COUNT_OF(headers); i++) {
        f = safetensors_file(headers[i][0], numbers, sizeof numbers, 4);
        const dt_status status = open_bytes(ctx, &o, "b.safetensors:x", &f);
        ck_assert(status == DT_ERR_FORMAT || status == DT_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(dt_error(ctx), headers[i][1]) != NULL, "%d: %s", i, dt_error(ctx));
        dt__array_file_close(&o.file);
        file_free(&f);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Tensors at random places, most of which touch: every byte must belong to one of them, whichever
 * is loaded. */
START_TEST(tensors_cover_the_bytes)
{
    enum { BYTES = sizeof numbers };
    static const char *const words[] = { NULL, "belong to no tensor", "two tensors overlap",
                                         "bytes, but" };
    dt_ctx *ctx = sample_context(1);
    int seen[4] = { 0 };
    for (int k = 0; k < 400; k++) {
        char header[512] = "{", name[40];
        int at = 0, owners[BYTES] = { 0 };
        const int n = 1 + rand() % 4, wanted = rand() % n, data = 4 + rand() % (BYTES - 3);
        for (int i = 0; i < n; i++) {
            const int move = rand() % 6 == 0 ? rand() % 5 - 2 : 0;
            const int begin = at + move < 0 ? 0 : at + move > data ? data : at + move;
            const int rest = data - begin;
            const int bytes = i == n - 1 && rand() % 5 > 0 ? rest : rand() % (rest + 1);
            for (int b = begin; b < begin + bytes; b++) owners[b]++;
            at = begin + bytes;
            const size_t used = strlen(header);
            snprintf(header + used, sizeof header - used,
                     "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}%s",
                     i > 0 ? "," : "", i, bytes, begin, at, i == n - 1 ? "}" : "");
        }
        int none = 0, several = 0, end = data;
        for (int b = 0; b < data; b++) several += owners[b] > 1;
        while (end > 0 && owners[end - 1] == 0) end--;
        for (int b = 0; b < end; b++) none += owners[b] == 0;
        opened o;
        file_bytes f = safetensors_file(header, numbers, (size_t)data, 1);
        snprintf(name, sizeof name, "o.safetensors:t%d", wanted);
        const dt_status s = open_bytes(ctx, &o, name, &f);
        const bool good = none + several == 0 && end == data;
        ck_assert_msg(s == (good ? DT_OK : DT_ERR_FORMAT), "%s: %s", header, dt_error(ctx));
        for (int w = 1; w < 4 && !good; w++) seen[w] += strstr(dt_error(ctx), words[w]) != NULL;
        seen[0] += good;
        dt__array_file_close(&o.file);
        file_free(&f);
    }
    for (int w = 0; w < 4; w++) ck_assert_msg(seen[w] > 10, "%d: %d", w, seen[w]);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status open_form(dt_ctx *ctx, void *user)
{
    opened o;
    const char *name;
    file_bytes f = form_of(*(int *)user, &name);
    const dt_status status = open_bytes(ctx, &o, name, &f);
    dt__array_file_close(&o.file);
    file_free(&f);
    return status;
}

START_TEST(every_allocation)
{
    int form = _i;
    ck_assert_int_gt(test_every_allocation(open_form, &form), 1);
}
END_TEST

Suite *test_array_files_suite(void)
{
    Suite *suite = suite_create("array_files");
    TCase *good = tcase_create("good"), *bad = tcase_create("bad");
    tcase_set_timeout(bad, 120);
    tcase_add_loop_test(good, forms, 0, FORMS);
    tcase_add_test(good, dtypes);
    tcase_add_test(good, waves);
    tcase_add_loop_test(good, every_allocation, 2, FORMS);
    tcase_add_loop_test(bad, truncated, 0, FORMS + 1);
    tcase_add_loop_test(bad, mutated, 0, FORMS + 1);
    tcase_add_test(bad, hostile_npy);
    tcase_add_test(bad, bombs);
    tcase_add_test(bad, packed_too_well);
    tcase_add_test(bad, hostile_archives);
    tcase_add_test(bad, tensors_cover_the_bytes);
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, bad);
    return suite;
}
