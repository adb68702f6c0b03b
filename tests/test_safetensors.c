/* Reading safetensors files: the reference files, one file for each rule that can be broken, every
 * truncation and every change of a byte, conversions, and memory that fails. */
#include "core/text/byte_order.h"
#include "testing.h"

#include <detent/experimental/io.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_ctx *make_context(void)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    return ctx;
}

/* Nothing is left in use. */
static void free_context(dt_ctx *ctx)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* A file of a header and `zeros` bytes of data. */
static void write_parts(const char *path, const void *header, size_t length, size_t zeros)
{
    char *bytes = calloc(1, 8 + length + zeros);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    test_write_file(path, bytes, 8 + length + zeros);
    free(bytes);
}

/* ---- the reference files -------------------------------------------------------------------- */

static void check_digest(const dt_file_entry *e, const char *want)
{
    char folder[TEST_PATH], path[TEST_PATH], *output;
    test_folder(folder);
    test_join(path, folder, "data");
    const size_t whole = DT__BIG_ENDIAN && e->count > 0 ? e->bytes / (size_t)e->count : 1;
    const size_t width = whole > 0 ? whole : 1; /* two 4-bit numbers a byte */
    char *bytes = malloc(e->bytes + 1);         /* in the file's order */
    ck_assert_ptr_nonnull(bytes);
    dt__reverse_elements(bytes, e->data, e->bytes, width);
    test_write_file(path, bytes, e->bytes);
    free(bytes);
    ck_assert_int_eq(test_shell(&output, "sha256sum %s", path), 0);
    ck_assert_msg(strncmp(output, want, strlen(want)) == 0, "'%s' has other bytes", e->name);
    free(output);
}

static void check_tensor(const dt_file_entry *e, json_t *want)
{
    ck_assert_str_eq(e->dtype, json_string_value(json_array_get(want, 0)));
    json_t *shape = json_array_get(want, 1);
    ck_assert_int_eq(e->rank, (int)json_array_size(shape));
    for (int i = 0; i < e->rank; i++) {
        ck_assert_int_eq(e->dims[i], json_integer_value(json_array_get(shape, (size_t)i)));
    }
}

/* The contents of an accepted file according to the index: every tensor and metadata pair. */
static void check_content(const dt_file *file, json_t *about)
{
    json_t *tensors = json_object_get(about, "tensors"), *want;
    json_t *digests = json_object_get(about, "sha256_of_data_first_16");
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
            check_tensor(e, want);
            check_digest(e, json_string_value(json_object_get(digests, name)));
        }
    }
    ck_assert_int_eq(dt_file_meta_count(file), (int64_t)json_object_size(metadata));
    json_object_foreach(metadata, name, want)
    {
        ck_assert_str_eq(dt_file_meta(file, name), json_string_value(want));
    }
}

static void check_reference(dt_ctx *ctx, const char *folder, json_t *about)
{
    const char *name = json_string_value(json_object_get(about, "file"));
    const char *want = json_string_value(json_object_get(about, "want"));
    char path[TEST_PATH];
    test_join(path, folder, name);
    dt_file *file;
    const dt_status status = dt_file_open(ctx, path, &file);
    if (status == DT_OK) {
        ck_assert_msg(strcmp(want, "reject") != 0, "%s was accepted", name);
        check_content(file, about);
        TEST_OK(ctx, dt_file_check(file));
        dt_file_close(file);
    } else {
        ck_assert_msg(strcmp(want, "accept") != 0, "%s", dt_error(ctx));
        ck_assert_msg(status == DT_ERR_FORMAT, "%s", dt_error(ctx));
        ck_assert_ptr_null(file);
    }
}

START_TEST(reference_files)
{
    char folder[TEST_PATH], path[TEST_PATH];
    if (!test_golden(folder, "quant/safetensors")) return;
    test_join(path, folder, "index.json");
    json_t *index = json_load_file(path, 0, NULL), *about;
    ck_assert_ptr_nonnull(index);
    dt_ctx *ctx = make_context();
    size_t i;
    json_array_foreach(json_object_get(index, "valid"), i, about)
    {
        check_reference(ctx, folder, about);
    }
    json_array_foreach(json_object_get(index, "invalid"), i, about)
    {
        check_reference(ctx, folder, about);
    }
    free_context(ctx);
    json_decref(index);
}
END_TEST

/* ---- one file for each rule ----------------------------------------------------------------- */

/* A header, how many zeros follow it, and what the message says; "" where it is accepted. Single
 * quotes mean double ones, ~ a backslash. */
typedef struct rule {
    const char *header;
    size_t zeros;
    const char *says;
} rule;

#define ONE(dtype, shape, offsets)                                                                 \
    "{'a':{'dtype':'" dtype "','shape':" shape ",'data_offsets':" offsets "}}"
#define ENTRY(name, begin, end) "'" name "':" U8(begin, end)
#define U8(begin, end) "{'dtype':'U8','shape':[1],'data_offsets':[" begin "," end "]}"

static const rule rules[] = {
    { "{}", 0, "" },
    { "{ }   ", 0, "" },
    { "{}\v", 0, "only white space may follow" },
    { "{} {}", 0, "only white space may follow" },
    { "{},", 0, "only white space may follow" },
    { "", 0, "begins with '{'" },
    { "\n{}", 0, "begins with '{'" },
    { "\xef\xbb\xbf{}", 0, "begins with '{'" },
    { "null", 0, "begins with '{'" },
    { "{", 0, "a string is expected here" },
    { "{,}", 0, "a string is expected here" },
    { "{a:1}", 0, "a string is expected here" },
    { "{'a'}", 0, "':' is expected here" },
    { "{'a'", 0, "the text ends where ':'" },
    { "{'a':", 0, "the text ends where '{'" },
    { "{'a':null}", 0, "'{' is expected here" },
    { "{'a':[]}", 0, "'{' is expected here" },
    { "{'a':{}}", 0, "'dtype' is missing" },
    /* text */
    { "{'a", 0, "ends within a string" },
    { "{'a~", 0, "ends within a string" },
    { "{'~", 0, "ends within a string" },
    { "{'~q':" U8("0", "1") "}", 1, "must be followed by one of" },
    { "{'~u12':" U8("0", "1") "}", 1, "four hexadecimal digits" },
    { "{'~u00g0':" U8("0", "1") "}", 1, "four hexadecimal digits" },
    { "{'~u00", 1, "four hexadecimal digits" },
    { "{'~u0000':" U8("0", "1") "}", 1, "character 0" },
    { "{'~ud800':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~ud800x':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~ud800~n':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~ud800~u0041':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~udc00~ud800':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~ud800~ud800':" U8("0", "1") "}", 1, "surrogate" },
    { "{'~ud83d~ude00':" U8("0", "1") "}", 1, "" },
    { "{'~u00e9~u65E5~/~b~f~n~r~t~~':" U8("0", "1") "}", 1, "" },
    { "{'a\nb':" U8("0", "1") "}", 1, "control character" },
    { "{'a\x01':" U8("0", "1") "}", 1, "control character" },
    { "{'\x7f':" U8("0", "1") "}", 1, "" },
    { "{'\x80':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xc0\x80':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xc1\xbf':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xc2\x80':" U8("0", "1") "}", 1, "" },
    { "{'\xe0\x9f\xbf':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xe0\xa0\x80':" U8("0", "1") "}", 1, "" },
    { "{'\xed\x9f\xbf':" U8("0", "1") "}", 1, "" },
    { "{'\xed\xa0\x80':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xf0\x8f\xbf\xbf':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xf0\x90\x80\x80':" U8("0", "1") "}", 1, "" },
    { "{'\xf4\x8f\xbf\xbf':" U8("0", "1") "}", 1, "" },
    { "{'\xf4\x90\x80\x80':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xf5\x80\x80\x80':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xff':" U8("0", "1") "}", 1, "not UTF-8" },
    { "{'\xf0\x90\x80", 0, "not UTF-8" },
    /* tensors */
    { ONE("F32", "[1]", "[0,4]"), 4, "" },
    { "{ 'a' :\t{ 'shape' :\r[ 1 ] , 'data_offsets'\n: [ 0 , 1 ] , 'dtype' : 'U8' } } ", 1, "" },
    { "{'a':{'~u0064type':'U8','shape':[],'data_offsets':[0,1]}}", 1, "" },
    { "{'a':{'dtype':'U8','dtype':'U8','shape':[],'data_offsets':[0,1]}}", 1, "occurs twice" },
    { "{'a':{'dtype':'U8','shape':[],'shape':[],'data_offsets':[0,1]}}", 1, "occurs twice" },
    { "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1],'strides':[]}}", 1, "no 'strides'" },
    { "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1],}}", 1, "a string is expected" },
    { "{'a':{'dtype':'U8','shape':[]}}", 1, "'data_offsets' is missing" },
    { "{'a':{'dtype':'U8','data_offsets':[0,1]}}", 1, "'shape' is missing" },
    { "{'a':{'shape':[],'data_offsets':[0,1]}}", 1, "'dtype' is missing" },
    { "{'a':{'dtype':null,'shape':[],'data_offsets':[0,1]}}", 1, "a string is expected" },
    { ONE("f32", "[1]", "[0,4]"), 4, "unknown dtype 'f32'" },
    { ONE("F32 ", "[1]", "[0,4]"), 4, "unknown dtype" },
    { ONE("", "[1]", "[0,4]"), 4, "unknown dtype ''" },
    { ONE("U8", "[01]", "[0,1]"), 1, "begin with 0" },
    { ONE("U8", "[00]", "[0,0]"), 0, "begin with 0" },
    { ONE("U8", "[-0]", "[0,0]"), 0, "negative" },
    { ONE("U8", "[+1]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[1.0]", "[0,1]"), 1, "without point" },
    { ONE("U8", "[1e0]", "[0,1]"), 1, "without point or exponent" },
    { ONE("U8", "[1E0]", "[0,1]"), 1, "without point or exponent" },
    { ONE("U8", "[0x1]", "[0,1]"), 1, "']' is expected here" },
    { ONE("U8", "['1']", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[true]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[null]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[[1]]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[1,]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[,1]", "[0,1]"), 1, "whole number" },
    { ONE("U8", "[1 1]", "[0,1]"), 1, "']' is expected here" },
    { ONE("U8", "{}", "[0,1]"), 1, "'[' is expected here" },
    { ONE("U8", "1", "[0,1]"), 1, "'[' is expected here" },
    { ONE("U8", "[9223372036854775808]", "[0,1]"), 1, "2^63" },
    { ONE("U8", "[99999999999999999999999]", "[0,1]"), 1, "2^63" },
    { ONE("U8", "[9223372036854775807]", "[0,1]"), 1, "no size" },
    { ONE("U8", "[9223372036854775807,2]", "[0,1]"), 1, "no size" },
    { ONE("F64", "[9223372036854775807]", "[0,1]"), 1, "no size" },
    { ONE("U8", "[9223372036854775807,9223372036854775807,0]", "[0,0]"), 0, "" },
    { ONE("U8", "[1]", "[]"), 1, "whole number" },
    { ONE("U8", "[1]", "[0]"), 1, "',' is expected here" },
    { ONE("U8", "[1]", "[0,1,1]"), 1, "']' is expected here" },
    { ONE("U8", "[1]", "[0,1"), 1, "']' is expected here" },
    { ONE("U8", "[1]", "{'begin':0}"), 1, "'[' is expected here" },
    { ONE("U8", "[1]", "[-1,0]"), 1, "negative" },
    { ONE("U8", "[1]", "[1,0]"), 1, "end before they begin" },
    { ONE("U8", "[1]", "[0,2]"), 1, "beyond the data" },
    { ONE("U8", "[1]", "[9223372036854775806,9223372036854775807]"), 1, "beyond the data" },
    { ONE("U8", "[2]", "[0,1]"), 1, "span 1 bytes" },
    { ONE("U8", "[0]", "[1,1]"), 1, "belong to no tensor" },
    { ONE("U8", "[]", "[0,1]"), 1, "" },
    { ONE("U8", "[1]", "[0,1]"), 2, "the data, which has 2" },
    /* dtypes of less than a byte */
    { ONE("F4", "[2]", "[0,1]"), 1, "" },
    { ONE("F4", "[3]", "[0,2]"), 2, "no whole bytes" },
    { ONE("F6_E2M3", "[4]", "[0,3]"), 3, "" },
    { ONE("F6_E3M2", "[2,2]", "[0,3]"), 3, "" },
    { ONE("F6_E3M2", "[2]", "[0,2]"), 2, "no whole bytes" },
    { ONE("F8_E8M0", "[2]", "[0,2]"), 2, "" },
    { ONE("F8_E4M3FNUZ", "[2]", "[0,2]"), 2, "" },
    { ONE("C64", "[2]", "[0,16]"), 16, "" },
    /* several tensors */
    { "{" ENTRY("a", "0", "1") "," ENTRY("b", "1", "2") "}", 2, "" },
    { "{" ENTRY("b", "1", "2") "," ENTRY("a", "0", "1") "}", 2, "" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("b", "0", "1") "}", 1, "overlap" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("b", "2", "3") "}", 3, "belong to no tensor" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("a", "1", "2") "}", 2, "'a' occurs twice" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("~u0061", "1", "2") "}", 2, "'a' occurs twice" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("b", "1", "2") ",}", 2, "a string is expected" },
    { "{" ENTRY("a", "0", "1") " " ENTRY("b", "1", "2") "}", 2, "'}' is expected here" },
    { "{" ENTRY("a", "0", "1") "," ENTRY("b", "1", "2"), 2, "the text ends where '}'" },
    { "{" ENTRY("", "0", "1") "}", 1, "" },
    /* metadata */
    { "{'__metadata__':{}}", 0, "" },
    { "{'__metadata__':{'a':'b','c':''}}", 0, "" },
    { "{'__metadata__':{'a':'b','a':'b'}}", 0, "'a' occurs twice" },
    { "{'__metadata__':{'a':'b'},'__metadata__':{}}", 0, "__metadata__ occurs twice" },
    { "{'__metadata__':null}", 0, "'{' is expected here" },
    { "{'__metadata__':'a'}", 0, "'{' is expected here" },
    { "{'__metadata__':{'a':null}}", 0, "a string is expected" },
    { "{'__metadata__':{'a':1}}", 0, "a string is expected" },
    { "{'__metadata__':{'a':['b']}}", 0, "a string is expected" },
    { "{'__metadata__':{'a'}}", 0, "':' is expected here" },
    { "{'__metadata__':{'a':'b',}}", 0, "a string is expected" },
    { "{'__metadata__':" U8("0", "1") "}", 1, "a string is expected" },
    { "{'__Metadata__':{'a':'b'}}", 0, "no 'a'" },
};

static size_t spell(char *header, const char *rule_text)
{
    size_t n = 0;
    for (; rule_text[n] != 0; n++) {
        header[n] = (char)(rule_text[n] == '\'' ? '"' : rule_text[n] == '~' ? '\\' : rule_text[n]);
    }
    return n;
}

START_TEST(every_rule_of_the_format)
{
    char folder[TEST_PATH], path[TEST_PATH], header[1024];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const size_t length = spell(header, rules[i].header);
        write_parts(path, header, length, rules[i].zeros);
        dt_file *file;
        const dt_status status = dt_file_open(ctx, path, &file);
        if (rules[i].says[0] == 0) {
            ck_assert_msg(status == DT_OK, "%s: %s", rules[i].header, dt_error(ctx));
        } else {
            ck_assert_msg(status == DT_ERR_FORMAT, "%s: accepted", rules[i].header);
            ck_assert_msg(strstr(dt_error(ctx), rules[i].says) != NULL, "%s: %s", rules[i].header,
                          dt_error(ctx));
        }
        dt_file_close(file);
    }
    free_context(ctx);
}
END_TEST

/* Brackets without end, where a recursive reader runs out of stack. */
START_TEST(deep_nesting)
{
    static char header[1 << 20];
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    static const char *const begins[] = { "", "{\"a\":", "{\"a\":{\"shape\":[",
                                          "{\"__metadata__\":{\"a\":" };
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        memset(header, i % 2 == 0 ? '[' : '{', sizeof header);
        memcpy(header, begins[i], strlen(begins[i]));
        write_parts(path, header, sizeof header, 0);
        dt_file *file;
        ck_assert_int_eq(dt_file_open(ctx, path, &file), DT_ERR_FORMAT);
    }
    free_context(ctx);
}
END_TEST

START_TEST(names_in_messages_are_fit_to_print)
{
    char folder[TEST_PATH], path[TEST_PATH], header[4096];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    dt_file *file;
    write_parts(path, header, spell(header, "{'~u001b[2J~n':{}}"), 0);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'?[2J?'", dt_file_open(ctx, path, &file));
    size_t n = spell(header, "{'");
    for (int i = 0; i < 1000; i++) n += spell(header + n, "\xc3\xa9");
    n += spell(header + n, "':{}}");
    write_parts(path, header, n, 0);
    TEST_FAILS(ctx, DT_ERR_FORMAT, "\xc3\xa9...'", dt_file_open(ctx, path, &file));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "'dtype' is missing"));
    free_context(ctx);
}
END_TEST

/* ---- damaged files -------------------------------------------------------------------------- */

/* Reads all memory that an open file lends, from its first to its last byte. */
static unsigned walk(const dt_file *file, size_t size)
{
    unsigned sum = 0;
    size_t bytes = 0;
    for (int64_t i = 0; i < dt_file_count(file); i++) {
        const dt_file_entry *e = dt_file_at(file, i);
        ck_assert_ptr_eq(dt_file_find(file, e->name), e);
        for (int k = 0; k < e->rank; k++) ck_assert_int_ge(e->dims[k], 0);
        const unsigned char *p = e->data;
        for (size_t k = 0; k < e->bytes; k++) sum += p[k];
        bytes += e->bytes;
        dt_tensor *x;
        if (dt_file_load(file, e->name, DT_F32, &x) == DT_OK) dt_tensor_free(x);
    }
    ck_assert_uint_lt(bytes, size);
    const char *key, *value;
    for (int64_t i = 0; i < dt_file_meta_count(file); i++) {
        ck_assert(dt_file_meta_at(file, i, &key, &value));
        ck_assert_str_eq(dt_file_meta(file, key), value);
    }
    return sum;
}

static char *small_file(char path[TEST_PATH], size_t *size)
{
    char folder[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "small.safetensors");
    dt_ctx *ctx = make_context();
    dt_writer *w;
    const float values[] = { 1, -2, 3, 0.5f };
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_meta(w, "k", "v\n"));
    TEST_OK(ctx, dt_writer_add_bytes(w, &(dt_file_entry){ .name = "w",
                                                          .dtype = "F32",
                                                          .rank = 2,
                                                          .dims = (const int64_t[]){ 2, 2 },
                                                          .data = values }));
    TEST_OK(ctx, dt_writer_add_bytes(w, &(dt_file_entry){ .name = "b",
                                                          .dtype = "I8",
                                                          .rank = 1,
                                                          .dims = (const int64_t[]){ 3 },
                                                          .data = "\1\2\3" }));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    free_context(ctx);
    return test_read_file(path, size);
}

START_TEST(every_truncation)
{
    char path[TEST_PATH];
    size_t size;
    char *bytes = small_file(path, &size);
    dt_ctx *ctx = make_context();
    dt_file *file;
    for (size_t n = size; n-- > 0;) {
        ck_assert_int_eq(truncate(path, (off_t)n), 0);
        TEST_FAILS(ctx, DT_ERR_FORMAT, path, dt_file_open(ctx, path, &file));
    }
    free(bytes);
    free_context(ctx);
}
END_TEST

/* Each byte takes all other values. A file that still opens must be readable, and the hash finds
 * the change, unless the change hides the hash's own key. */
START_TEST(every_change_of_a_byte)
{
    char path[TEST_PATH];
    size_t size;
    char *bytes = small_file(path, &size);
    const int descriptor = open(path, O_RDWR);
    ck_assert_int_ge(descriptor, 0);
    dt_ctx *ctx = make_context();
    int opened = 0;
    for (size_t at = 0; at < size; at++) {
        for (int change = 1; change < 256; change++) {
            const char byte = (char)(bytes[at] ^ change);
            ck_assert_int_eq((int)pwrite(descriptor, &byte, 1, (off_t)at), 1);
            dt_file *file;
            const dt_status status = dt_file_open(ctx, path, &file);
            ck_assert(status == DT_OK || status == DT_ERR_FORMAT);
            if (status != DT_OK) continue;
            opened++;
            walk(file, size);
            ck_assert_msg(dt_file_check(file) != DT_OK, "byte %zu ^ %d", at, change);
            dt_file_close(file);
        }
        ck_assert_int_eq((int)pwrite(descriptor, &bytes[at], 1, (off_t)at), 1);
    }
    printf("safetensors: %zu changed bytes, %d files opened\n", size * 255, opened);
    ck_assert_int_gt(opened, 0);
    close(descriptor);
    free(bytes);
    free_context(ctx);
}
END_TEST

/* ---- conversions ---------------------------------------------------------------------------- */

/* Of the dtypes F32 F64 I32 I64 U8 I8 BOOL I4, in the order of dt_dtype: which a tensor loads as.
 */
static const struct {
    const char *name, *loads;
} loads[] = {
    { "t_f32", "11000000" },  { "t_f64", "11000000" },     { "t_f16", "11000000" },
    { "t_bf16", "11000000" }, { "t_i64", "00010000" },     { "t_i32", "00110000" },
    { "t_i16", "00110000" },  { "t_i8", "00110100" },      { "t_u64", "00000000" },
    { "t_u32", "00010000" },  { "t_u16", "00110000" },     { "t_u8", "00111000" },
    { "t_bool", "00000010" }, { "t_f8_e4m3", "00000000" }, { "t_f8_e5m2", "00000000" },
};

/* An element of a file, by the meaning of its dtype, for the integers. */
static int64_t integer_at(const dt_file_entry *e, int i)
{
    const unsigned char *p = e->data;
    const size_t n = e->bytes / 3;
    uint64_t v = 0;
    for (size_t k = n; k-- > 0;) v = v << 8 | p[(size_t)i * n + (DT__BIG_ENDIAN ? n - 1 - k : k)];
    if (e->dtype[0] != 'I' || n == 8) return (int64_t)v;
    const uint64_t sign = (uint64_t)1 << (8 * n - 1);
    return (int64_t)((v ^ sign) - sign);
}

static void check_integers(const dt_file_entry *e, const dt_tensor *x)
{
    for (int i = 0; i < 3; i++) {
        int64_t got = 0;
        switch (dt_dtype_of(x)) {
        case DT_I32: got = ((const int32_t *)dt_data(x))[i]; break;
        case DT_I64: got = ((const int64_t *)dt_data(x))[i]; break;
        case DT_I8: got = ((const int8_t *)dt_data(x))[i]; break;
        default: got = ((const uint8_t *)dt_data(x))[i]; break;
        }
        ck_assert_int_eq(got, integer_at(e, i));
    }
}

START_TEST(every_pair_of_dtypes)
{
    char path[TEST_PATH];
    if (!test_golden(path, "quant/safetensors/valid/all_dtypes.safetensors")) return;
    dt_ctx *ctx = make_context();
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    ck_assert_int_eq(dt_file_count(file), (int64_t)(sizeof loads / sizeof loads[0]));
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        for (int d = 0; d <= DT_I4; d++) {
            dt_tensor *x;
            if (loads[i].loads[d] == '0') {
                TEST_FAILS(ctx, DT_ERR_DTYPE, loads[i].name,
                           dt_file_load(file, loads[i].name, (dt_dtype)d, &x));
                ck_assert_ptr_null(x);
                continue;
            }
            /* random bytes: an F64 may well be beyond f32 */
            if (dt_file_load(file, loads[i].name, (dt_dtype)d, &x) == DT_ERR_NUMERIC) continue;
            ck_assert_msg(x != NULL, "%s", dt_error(ctx));
            ck_assert_int_eq(dt_dtype_of(x), d);
            ck_assert_int_eq(dt_count(x), 3);
            if (d > DT_F64) check_integers(dt_file_find(file, loads[i].name), x);
            dt_tensor_free(x);
        }
    }
    dt_file_close(file);
    free_context(ctx);
}
END_TEST

static dt_file *open_entries(dt_ctx *ctx, const dt_file_entry *entry, int count)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "entries.safetensors");
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int i = 0; i < count; i++) TEST_OK(ctx, dt_writer_add_bytes(w, &entry[i]));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    return file;
}

START_TEST(values_convert)
{
    const int64_t four[] = { 4 }, nine[] = { 1, 1, 1, 1, 1, 1, 1, 1, 4 };
    const uint16_t f16[] = { 0x3c00, 0x8001, 0x7bff, 0xfc00 };
    const uint16_t bf16[] = { 0x3f80, 0x8001, 0x7f7f, 0xff80 };
    const double f64[] = { 1, 1 + 0x1p-24, 0x1.fffffefffffffp127, -INFINITY };
    const double large[] = { 0, 1, 0x1.ffffffp127, 2 };
    const dt_file_entry entry[] = {
        { .name = "f16", .dtype = "F16", .rank = 1, .dims = four, .data = f16 },
        { .name = "bf16", .dtype = "BF16", .rank = 1, .dims = four, .data = bf16 },
        { .name = "f64", .dtype = "F64", .rank = 1, .dims = four, .data = f64 },
        { .name = "large", .dtype = "F64", .rank = 1, .dims = four, .data = large },
        { .name = "bool", .dtype = "BOOL", .rank = 1, .dims = four, .data = "\0\1\2\1" },
        { .name = "rank", .dtype = "U8", .rank = 9, .dims = nine, .data = "abcd" },
    };
    const float want[3][4] = { { 1, -0x1p-24f, 65504, -INFINITY },
                               { 1, -0x1p-133f, 0x1.fep127f, -INFINITY },
                               { 1, 1, 0x1.fffffep127f, -INFINITY } };
    dt_ctx *ctx = make_context();
    dt_file *file = open_entries(ctx, entry, 6);
    dt_tensor *x;
    for (int i = 0; i < 3; i++) {
        TEST_OK(ctx, dt_file_load(file, entry[i].name, DT_F32, &x));
        ck_assert_mem_eq(dt_data(x), want[i], sizeof want[i]);
        dt_tensor_free(x);
        TEST_OK(ctx, dt_file_load(file, entry[i].name, DT_F64, &x));
        for (int k = 0; k < 4; k++) {
            ck_assert(((const double *)dt_data(x))[k] == (i == 2 ? f64[k] : (double)want[i][k]));
        }
        dt_tensor_free(x);
    }
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "'large': element 2", dt_file_load(file, "large", DT_F32, &x));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "'bool': element 2", dt_file_load(file, "bool", DT_BOOL, &x));
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "9 dimensions", dt_file_load(file, "rank", DT_U8, &x));
    TEST_FAILS(ctx, DT_ERR_ARG, "no tensor 'none'", dt_file_load(file, "none", DT_U8, &x));
    dt_file_close(file);
    free_context(ctx);
}
END_TEST

/* No element, so no bytes; but its strides would be beyond 64 bits. */
START_TEST(empty_tensors_may_be_too_large)
{
    char folder[TEST_PATH], path[TEST_PATH], header[256];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    write_parts(path, header, spell(header, ONE("F32", "[0,4294967296,4294967296]", "[0,0]")), 0);
    dt_ctx *ctx = make_context();
    dt_file *file;
    dt_tensor *x;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    ck_assert_int_eq(dt_file_at(file, 0)->count, 0);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "'a' is empty", dt_file_load(file, "a", DT_F32, &x));
    ck_assert_ptr_null(x);
    dt_file_close(file);
    free_context(ctx);
}
END_TEST

/* ---- what the system refuses, what the context refuses -----------------------------------------
 */

START_TEST(files_that_cannot_be_read)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    dt_ctx *ctx = make_context();
    dt_file *file;
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file", dt_file_open(ctx, path, &file));
    TEST_FAILS(ctx, DT_ERR_IO, "neither a run", dt_file_open(ctx, folder, &file));
    TEST_FAILS(ctx, DT_ERR_IO, "not a regular file", dt_file_open(ctx, "/dev/null", &file));
    test_join(path, folder, "none");
    TEST_FAILS(ctx, DT_ERR_IO, "No such file", dt_file_open(ctx, path, &file));
    TEST_FAILS(ctx, DT_ERR_IO, "No such file", dt_file_open(ctx, "", &file));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_file_open(ctx, NULL, &file));
    ck_assert_ptr_null(file);
    dt_file_close(NULL);
    free_context(ctx);
}
END_TEST

/* A file with a hole of 5 GiB: addresses of 32 bits cannot hold it. */
START_TEST(files_beyond_the_address_space)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "large.safetensors");
    test_write_file(path, "", 0);
    ck_assert_int_eq(truncate(path, (off_t)5 << 30), 0);
    dt_ctx *ctx = make_context();
    dt_file *file;
    const bool narrow = sizeof(size_t) < sizeof(off_t);
    TEST_FAILS(ctx, narrow ? DT_ERR_NOMEM : DT_ERR_FORMAT, narrow ? "5368709120 bytes" : "header",
               dt_file_open(ctx, path, &file));
    ck_assert_ptr_null(file);
    free_context(ctx);
}
END_TEST

/* A file that begins as GGUF does is read as one, or refused by a big-endian machine. */
START_TEST(files_of_llama_cpp)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "file.gguf");
    test_write_file(path, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    dt_ctx *ctx = make_context();
    dt_file *file;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "general.architecture", dt_file_open(ctx, path, &file));
    ck_assert_ptr_null(file);
    free_context(ctx);
}
END_TEST

START_TEST(files_of_other_versions)
{
    static const struct {
        const char *header;
        dt_status status;
        const char *says;
    } cases[] = {
        { "{'__metadata__':{'detent.version':'0.0.9'}}", DT_ERR_FORMAT, "without detent.xxh3" },
        { "{'__metadata__':{'detent.version':'0.99.0'}}", DT_ERR_FORMAT, "damaged" },
        { "{'__metadata__':{'detent.version':'99.0.0'}}", DT_ERR_UNSUPPORTED, "detent 99.0.0" },
        { "{'__metadata__':{'detent.version':'9999999999.0'}}", DT_ERR_FORMAT, "not a version" },
        { "{'__metadata__':{'detent.version':'one'}}", DT_ERR_FORMAT, "not a version" },
        { "{'__metadata__':{'detent.xxh3':''}}", DT_ERR_FORMAT, "16 digits" },
        { "{'__metadata__':{'detent.xxh3':'ABCDEF0123456789'}}", DT_ERR_FORMAT, "16 digits" },
        { "{'__metadata__':{'detent.xxh3':'~u0030000000000000000'}}", DT_ERR_FORMAT, "16 digits" },
        { "{'__metadata__':{'detent.xxh3':'0000000000000000'}}", DT_ERR_FORMAT, "damaged" },
    };
    char folder[TEST_PATH], path[TEST_PATH], header[256];
    test_folder(folder);
    test_join(path, folder, "file.safetensors");
    dt_ctx *ctx = make_context();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dt_file *file;
        write_parts(path, header, spell(header, cases[i].header), 0);
        TEST_OK(ctx, dt_file_open(ctx, path, &file));
        TEST_FAILS(ctx, cases[i].status, cases[i].says, dt_file_check(file));
        dt_file_close(file);
    }
    free_context(ctx);
}
END_TEST

/* The file outlives the user's hold on the context. */
START_TEST(order_of_frees)
{
    char path[TEST_PATH];
    size_t size;
    free(small_file(path, &size));
    test_memory m = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.allocator = test_allocator(&m);
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    dt_file *file;
    dt_tensor *x;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_OK(ctx, dt_file_load(file, "w", DT_F32, &x));
    dt_ctx_free(ctx);
    dt_file_close(file);
    ck_assert(((const float *)dt_data(x))[3] == 0.5f);
    dt_tensor_free(x);
    ck_assert_int_eq(m.live, 0);
}
END_TEST

static dt_status read_all(dt_ctx *ctx, void *user)
{
    const char *path = user;
    dt_file *file;
    dt_tensor *x = NULL;
    dt_status status = dt_file_open(ctx, path, &file);
    if (status == DT_OK) status = dt_file_check(file);
    if (status == DT_OK) status = dt_file_load(file, "w", DT_F64, &x);
    dt_tensor_free(x);
    dt_file_close(file);
    return status;
}

START_TEST(every_allocation_fails)
{
    char path[TEST_PATH];
    size_t size;
    free(small_file(path, &size));
    ck_assert_int_gt(test_every_allocation(read_all, path), 6);
}
END_TEST

START_TEST(every_malloc_fails)
{
    if (!test_malloc_can_fail()) return;
    char path[TEST_PATH];
    size_t size;
    free(small_file(path, &size));
    dt_ctx *ctx = make_context();
    for (int64_t n = 1;; n++) {
        test_malloc_fail_at(n);
        const dt_status status = read_all(ctx, path);
        const int64_t calls = test_malloc_calls();
        test_malloc_fail_at(0);
        ck_assert_msg(status == DT_OK || status == DT_ERR_NOMEM, "%s", dt_error(ctx));
        if (calls < n) break;
    }
    free_context(ctx);
}
END_TEST

Suite *test_safetensors_suite(void)
{
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("read");
    tcase_add_test(c, reference_files);
    tcase_add_test(c, every_rule_of_the_format);
    tcase_add_test(c, deep_nesting);
    tcase_add_test(c, names_in_messages_are_fit_to_print);
    tcase_add_test(c, every_truncation);
    tcase_add_test(c, every_change_of_a_byte);
    tcase_add_test(c, every_pair_of_dtypes);
    tcase_add_test(c, values_convert);
    tcase_add_test(c, empty_tensors_may_be_too_large);
    tcase_add_test(c, files_that_cannot_be_read);
    tcase_add_test(c, files_beyond_the_address_space);
    tcase_add_test(c, files_of_llama_cpp);
    tcase_add_test(c, files_of_other_versions);
    tcase_add_test(c, order_of_frees);
    tcase_add_test(c, every_allocation_fails);
    tcase_add_test(c, every_malloc_fails);
    suite_add_tcase(s, c);
    return s;
}
