/* Tables of SQLite files, compared with CSV files of the same values; tables packed by zstd. */
#include "data/content_hash.h"
#include "data/tables/csv_types.h"
#include "sample.h"

#include <detent/experimental/tables.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH];

static const char *path_of(const char *name)
{
    static char path[16][TEST_PATH];
    static int next;
    char *own = path[next++ % 16];
    if (folder[0] == 0) test_folder(folder);
    test_join(own, folder, name);
    return own;
}

static int below(int n) { return rand() % n; }

/* ---- data bases ----------------------------------------------------------------------------- */

#if defined DETENT_SQLITE
#include "data/tables/sqlite_library.h"

/* Runs statements in a new data base, by SQLite itself. */
static void make_database(const char *name, const char *statements)
{
    sqlite3 *db = NULL;
    ck_assert_ptr_null(dt__sqlite_load());
    test_remove(path_of(name));
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    ck_assert_int_eq(dt__sqlite.open_v2(path_of(name), &db, flags, NULL), SQLITE_OK);
    const int code = dt__sqlite.exec(db, statements, NULL, NULL, NULL);
    ck_assert_msg(code == SQLITE_OK, "%s: %s", statements, dt__sqlite.errmsg(db));
    ck_assert_int_eq(dt__sqlite.close(db), SQLITE_OK);
}

static const dt_column_rule rules[] = {
    { .columns = { 1, { "n" } }, .missing = DT_MISSING_MEAN },
    { .columns = { 1, { "r" } }, .missing = DT_MISSING_MEDIAN, .scale = DT_SCALE_ROBUST },
    { .columns = { 1, { "w*" } }, .type = DT_COLUMN_CATEGORY, .missing = DT_MISSING_CODE },
};

static uint64_t hash_of(dt_ctx *ctx, const char *name)
{
    dt_list_item items[3];
    dt_dataset *d[3] = { NULL, NULL, NULL };
    dt_data_options o = dt_data_defaults();
    for (int i = 0; i < 3; i++) items[i] = (dt_list_item){ NULL, (void *)(uintptr_t)&rules[i] };
    o.format = DT_DATA_TENSORS;
    o.train_tensors = (dt_tensor_files){ .given = true, .x = { 1, { name } } };
    o.columns.target = (dt_strings){ 1, { "y" } };
    o.columns.types = (dt_item_list){ 3, items };
    o.validation = 0.2;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d[0], &d[1], &d[2]));
    const uint64_t hash = dt__content_hash(d[0]) ^ dt__content_hash(d[1]);
    for (int i = 0; i < 3; i++) dt_dataset_free(d[i]);
    return hash;
}

/* Values of every type are what they are in a CSV file: integers to the last of 2^53, reals with
 * all their digits, words with quotes, separators and ends of lines, NULL. */
START_TEST(rows_are_those_of_a_csv_file)
{
    static const char *const words[] = { "red", "dark, blue", "two\nlines", "a \"quote\"" };
    srand((unsigned)_i);
    dt_ctx *ctx = sample_context(1);
    FILE *csv = fopen(path_of("t.csv"), "wb"), *sql = fopen(path_of("t.sql"), "wb");
    ck_assert(csv != NULL && sql != NULL);
    fputs("n,r,\"w, o\",y\n", csv);
    fputs("CREATE TABLE t(n INTEGER, r REAL, \"w, o\" TEXT, y); CREATE TABLE u(a);\n", sql);
    for (int i = 0; i < 100 + below(200); i++) {
        const char *word = words[below(4)];
        const double r = (below(2000000) - 1000000) / (1.0 + below(977)) * (below(9) ? 1 : 1e-9);
        const bool no_n = below(9) == 0, no_r = below(9) == 0, no_word = below(9) == 0;
        const int n = below(100000) - 50000, y = below(3);
        char number[32] = "", real[40] = "", text[40] = "";
        if (!no_n) snprintf(number, sizeof number, "%d", n);
        if (!no_r) snprintf(real, sizeof real, "%.17g", r);
        fprintf(csv, "%s,%s,", number, real);
        if (!no_word) {
            fputc('"', csv);
            for (const char *c = word; *c != 0; c++) fprintf(csv, *c == '"' ? "\"\"" : "%c", *c);
            fputc('"', csv);
            snprintf(text, sizeof text, "'%s'", word);
        }
        fprintf(csv, ",c%d\n", y);
        fprintf(sql, "INSERT INTO t VALUES(%s,%s,%s,'c%d');\n", no_n ? "NULL" : number,
                no_r ? "NULL" : real, no_word ? "NULL" : text, y);
    }
    ck_assert(fclose(csv) == 0 && fclose(sql) == 0);
    char *statements = test_read_file(path_of("t.sql"), NULL);
    make_database("t.db", statements);
    free(statements);
    const uint64_t wanted = hash_of(ctx, path_of("t.csv"));
    ck_assert_uint_eq(hash_of(ctx, path_of("t.db:t")), wanted);
    ck_assert_uint_eq(hash_of(ctx, path_of("t.db:select n, r, [w, o], y from t ;")), wanted);
    ck_assert_uint_eq(
        hash_of(ctx, path_of("t.db:WITH v AS (SELECT * FROM t) SELECT y, n, r, \"w, o\" FROM v")) !=
            0,
        1);
    dt_table_look in_db, in_csv;
    const dt_csv_options o = { .header = true };
    TEST_OK(ctx, dt_table_look_at(ctx, path_of("t.db:t"), &o, &in_db));
    TEST_OK(ctx, dt_table_look_at(ctx, path_of("t.csv"), &o, &in_csv));
    ck_assert(in_db.rows == in_csv.rows && in_db.n == 4);
    for (int64_t i = 0; i < in_db.n; i++) {
        ck_assert_str_eq(in_db.column[i].name, in_csv.column[i].name);
        ck_assert_int_eq(in_db.column[i].type, in_csv.column[i].type);
        ck_assert_int_eq(in_db.column[i].missing, in_csv.column[i].missing);
    }
    dt_table_look_free(ctx, &in_db);
    dt_table_look_free(ctx, &in_csv);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status read_table(dt_ctx *ctx, const char *name)
{
    const dt_csv_options o = { .header = true };
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    dt__csv_table t;
    const dt_status s = dt__csv_read(&c, path_of(name), &t);
    dt__csv_table_free(&t);
    dt__csv_free(&c);
    return s;
}

START_TEST(refused)
{
    static const struct {
        const char *name;
        dt_status status;
        const char *message;
    } all[] = {
        { "none.db", DT_ERR_IO, "cannot be opened" },
        { "r.db", DT_ERR_CONFIG, "has several tables: a, b, v" },
        { "r.db:c", DT_ERR_CONFIG, "has no table 'c'; it has a, b, v" },
        { "r.db:DELETE FROM a", DT_ERR_CONFIG, "a query begins with SELECT or WITH" },
        { "r.db:WITH q AS (SELECT 1) DELETE FROM a", DT_ERR_CONFIG, "changes the data base" },
        { "r.db:SELECT x FROM a; DROP TABLE a", DT_ERR_CONFIG, "text follows the query" },
        { "r.db:SELECT z FROM a", DT_ERR_CONFIG, "no such column: z" },
        { "r.db:SELECT x FRM a", DT_ERR_CONFIG, "syntax error" },
        { "r.db:b", DT_ERR_FORMAT, "row 2, column 1 ('x'): a BLOB" },
        { "r.db:SELECT x, t FROM a", DT_ERR_FORMAT, "row 3, column 2 ('t'): 'two\n" },
        { "r.db:SELECT x FROM a WHERE x > 99", DT_ERR_FORMAT, "no rows" },
        { "text.db", DT_ERR_FORMAT, "not a database" },
        { "empty.db", DT_ERR_CONFIG, "has no table" },
    };
    dt_ctx *ctx = sample_context(1);
    make_database("r.db", "CREATE TABLE a(x, t); INSERT INTO a VALUES(1, 1),(2, '2'),(3, 'two');"
                          "CREATE TABLE b(x); INSERT INTO b VALUES(1),(x'0102');"
                          "CREATE VIEW v AS SELECT x FROM a;");
    make_database("empty.db", "");
    test_write_text(path_of("text.db"), "this is no data base, but a text that is long enough to "
                                        "have a head of a hundred bytes, as data bases have it.\n");
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        char message[100];
        snprintf(message, sizeof message, "%.*s", (int)strcspn(all[i].message, "\n"),
                 all[i].message);
        TEST_FAILS(ctx, all[i].status, message, read_table(ctx, all[i].name));
    }
    TEST_OK(ctx, read_table(ctx, "r.db:v"));
    TEST_OK(ctx, read_table(ctx, "r.db:VALUES(1, 2),(3, 4)"));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* Damaged files end in an error or in other rows, never in a crash. */
START_TEST(damaged_databases)
{
    srand((unsigned)_i);
    dt_ctx *ctx = sample_context(1);
    make_database("d.db", "CREATE TABLE a(x, y); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
                          "i + 1 FROM n WHERE i < 400) INSERT INTO a SELECT i, i * 0.5 FROM n;");
    size_t size;
    char *bytes = test_read_file(path_of("d.db"), &size);
    const int64_t draws = test_count((test_draws){ .usual = 200, .sanitized = 40, .quick = 100 });
    for (int64_t i = 0; i < draws; i++) {
        char *copy = malloc(size);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, bytes, size);
        for (int k = 0; k < 1 + below(8); k++) copy[below((int)size)] = (char)below(256);
        test_write_file(path_of("e.db"), copy, i % 3 == 0 ? (size_t)below((int)size) : size);
        free(copy);
        const dt_status s = read_table(ctx, "e.db:a");
        TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_CONFIG || s == DT_ERR_IO, "%s",
                  dt_error(ctx));
    }
    free(bytes);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status read_one(dt_ctx *ctx, void *name) { return read_table(ctx, name); }

START_TEST(every_allocation)
{
    char name[] = "r.db:a";
    make_database("r.db", "CREATE TABLE a(x, t); INSERT INTO a VALUES(1, 1),(2, 2.5);");
    ck_assert_int_gt(test_every_allocation(read_one, name), 10);
}
END_TEST
#endif

/* ---- zstd ----------------------------------------------------------------------------------- */

#if defined DETENT_ZSTD
typedef size_t packer(void *, size_t, const void *, size_t, int);

static size_t pack(char *to, size_t room, const char *from, size_t n)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    packer *compress;
    *(void **)&compress = dlsym(library, "ZSTD_compress");
    const size_t packed = compress(to, room, from, n, 3);
    ck_assert_uint_le(packed, room);
    return packed;
}

/* Numbers of a packed table equal those of the plain one; a truncated or damaged file is refused
 * or, without a checksum, read as another table; two frames are one text. */
START_TEST(tables_packed_by_zstd)
{
    srand((unsigned)_i);
    dt_ctx *ctx = sample_context(1);
    const dt_csv_options o = { .header = true };
    static char text[1 << 22], packed[1 << 22];
    size_t n = (size_t)sprintf(text, "x,y\n");
    const int rows = _i == 0 ? 3 : 100000 + below(50000);
    for (int i = 0; i < rows; i++) n += (size_t)sprintf(text + n, "%d,%d.5\n", i, below(1000));
    const size_t half = n / 2, first = pack(packed, sizeof packed, text, half);
    const size_t all = first + pack(packed + first, sizeof packed - first, text + half, n - half);
    test_write_file(path_of("z.csv"), text, n);
    test_write_file(path_of("z.csv.zst"), packed, all);
    dt__csv a = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES }, b = a;
    dt__csv_table plain, own;
    TEST_OK(ctx, dt__csv_read(&a, path_of("z.csv"), &plain));
    TEST_OK(ctx, dt__csv_read(&b, path_of("z.csv.zst"), &own));
    ck_assert_int_eq(own.rows, plain.rows);
    ck_assert_mem_eq(own.x->data, plain.x->data, (size_t)own.rows * 2 * sizeof(float));
    dt__csv_table_free(&plain);
    dt__csv_table_free(&own);
    dt__csv_free(&a);
    dt__csv_free(&b);
    for (int i = 0; i < 30; i++) {
        const size_t left = i < 15 ? 5 + (size_t)below((int)all - 5) : all;
        const size_t at = (size_t)below((int)all);
        const char before = packed[at];
        if (left == first) continue;
        if (i >= 15) packed[at] ^= (char)(1 << below(8));
        test_write_file(path_of("d.csv.zst"), packed, left);
        packed[at] = before;
        dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
        const dt_status s = dt__csv_read(&c, path_of("d.csv.zst"), &own);
        TEST_EACH(s == DT_ERR_FORMAT || s == DT_ERR_NOMEM || (i >= 15 && s == DT_OK), "%s",
                  s == DT_OK ? "a file that is cut short" : dt_error(ctx));
        dt__csv_table_free(&own);
        dt__csv_free(&c);
    }
    /* a small file of strangers shall not fill the memory */
    memset(text, ' ', sizeof text);
    size_t used = 0;
    for (int i = 0; i < 16; i++)
        used += pack(packed + used, sizeof packed - used, text, sizeof text);
    test_write_file(path_of("bomb.csv.zst"), packed, used);
    dt__csv c = { .ctx = ctx, .options = &o, .target = DT_TARGET_VALUES };
    TEST_FAILS(ctx, DT_ERR_FORMAT, "times the file or more",
               dt__csv_read(&c, path_of("bomb.csv.zst"), &own));
    dt__csv_table_free(&own);
    dt__csv_free(&c);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST
#endif

START_TEST(names_of_tables)
{
    static const char *const tables[] = { "a.csv",    "A.CSV.gz",          "a.csv.zst",    "x.db",
                                          "x.sqlite", "x.db:SELECT 1.csv", "b/x.sqlite3:t" };
    static const char *const others[] = { "a.npy", "csv", ".csv", "x.dbx", "db:x", "x.gz" };
    for (int i = 0; i < DT__COUNT_OF(tables); i++) ck_assert(dt_is_table(tables[i]));
    for (int i = 0; i < DT__COUNT_OF(others); i++) ck_assert(!dt_is_table(others[i]));
    ck_assert(!dt_is_table(NULL));
}
END_TEST

Suite *test_databases_suite(void)
{
    Suite *suite = suite_create("databases");
    TCase *cases = tcase_create("databases");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, names_of_tables);
#if defined DETENT_SQLITE
    tcase_add_loop_test(cases, rows_are_those_of_a_csv_file, 0, 6);
    tcase_add_test(cases, refused);
    tcase_add_loop_test(cases, damaged_databases, 0, 3);
    tcase_add_test(cases, every_allocation);
#endif
#if defined DETENT_ZSTD
    tcase_add_loop_test(cases, tables_packed_by_zstd, 0, 3);
#endif
    suite_add_tcase(suite, cases);
    return suite;
}
