/* The pages of docs/ that come from tables of the program are what the tables say now.
 * DETENT_UPDATE=1 detent-test pages writes them anew. */
#include "pages.h"

#include "core/core.h"

#include <detent/experimental/train.h>

#include <stdlib.h>

/* A file, or what is between two lines of it. */
typedef struct page {
    const char *path;
    void (*put)(FILE *f);
    const char *begin, *end; /* NULL: the whole file */
} page;

static const page pages[] = {
    { "docs/ops.md", pages_put_ops, NULL, NULL },
    { "docs/recipe.md", pages_put_recipe, NULL, NULL },
    { "docs/export.md", pages_put_exports,
      "<!-- ops: begin, by DETENT_UPDATE=1 detent-test pages -->\n", "<!-- ops: end -->\n" },
};

static const char *page_path(int i) { return pages[i].path; }

static dt_status take(void *user, const char *bytes, size_t n)
{
    return fwrite(bytes, 1, n, user) == n ? DT_OK : DT_ERR_IO;
}

void pages_put_recipe(FILE *f)
{
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_recipe_markdown(ctx, take, f));
    dt_ctx_free(ctx);
}

/* The file as it should be, to be freed; `now` is how it is. */
static char *wanted(const page *p, const char *now)
{
    char *text = NULL;
    size_t bytes;
    const char *rest = "";
    FILE *f = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(f);
    if (p->begin != NULL) {
        const char *begin = strstr(now, p->begin), *end = strstr(now, p->end);
        ck_assert_msg(begin != NULL && end > begin, "%s lacks the lines\n%s%s", p->path, p->begin,
                      p->end);
        fwrite(now, 1, (size_t)(begin - now) + strlen(p->begin), f);
        rest = end;
    }
    p->put(f);
    fputs(rest, f);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

/* The first line, counted from 1, where two texts differ. */
static int first_difference(const char *a, const char *b)
{
    int line = 1;
    for (; *a == *b && *a != '\0'; a++, b++) line += *a == '\n';
    return line;
}

START_TEST(the_page_is_what_the_tables_say)
{
    const page *p = &pages[_i];
    char path[TEST_PATH];
    test_join(path, DETENT_SOURCE_DIR, p->path);
    char *now = test_read_file(path, NULL), *want = wanted(p, now);
    if (getenv("DETENT_UPDATE") != NULL) test_write_text(path, want);
    else
        ck_assert_msg(strcmp(now, want) == 0,
                      "%s is old from line %d on; DETENT_UPDATE=1 detent-test pages writes it",
                      p->path, first_difference(now, want));
    free(now);
    free(want);
}
END_TEST

Suite *test_pages_suite(void)
{
    Suite *s = suite_create("pages");
    TCase *c = tcase_create("docs");
    tcase_add_named_test(c, the_page_is_what_the_tables_say, DT__COUNT_OF(pages), page_path);
    suite_add_tcase(s, c);
    return s;
}
