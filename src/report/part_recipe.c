/* How to repeat the run, and its files: commands, machine, recipe. */
#include "core/system/system_calls.h"
#include "report/parts.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_FILES 64

typedef struct entry {
    char name[256];
    int64_t bytes;
} entry;

static int compare(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Lists a folder; returns the number of entries, -1 if it cannot be read. */
static int list(const char *dir, entry *out)
{
    int n = 0;
    char path[4096 + 300];
    struct stat found;
    DIR *folder = dt__sys_open_folder(dir);
    if (folder == NULL) return -1;
    const struct dirent *e = NULL;
    while (n < MOST_FILES && (e = dt__sys_next_entry(folder)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || stat(path, &found) != 0 || !S_ISREG(found.st_mode)) continue;
        snprintf(out[n].name, sizeof out[n].name, "%s", e->d_name);
        out[n++].bytes = (int64_t)found.st_size;
    }
    const bool whole = e != NULL || errno == 0;
    closedir(folder);
    if (!whole) return -1;
    qsort(out, (size_t)n, sizeof *out, compare);
    return n;
}

static void put_files(dt__chars *t, const dt__page_run *r)
{
    entry *files = dt__alloc_array(t->ctx, MOST_FILES, sizeof *files);
    if (files == NULL) {
        t->failed = true;
        return;
    }
    const int n = list(r->dir, files);
    if (n < 0) dt__page(t, "<p>The files in <code>%s</code> cannot be listed.</p>\n", r->dir);
    dt__page(t, "<h3>Files in <code>%s</code></h3><table class=\"files\"><tbody>\n", r->dir);
    for (int i = 0; i < n; i++) {
        if (strcmp(files[i].name, "report.html") == 0) continue;
        dt__page(t, "<tr><th scope=\"row\">%s</th><td>%b</td></tr>\n", files[i].name,
                 files[i].bytes);
    }
    dt__put_text(t, "</tbody></table>\n");
    dt__release(t->ctx, files);
}

static void put_fact(dt__chars *t, const char *name, const char *text)
{
    if (*text != 0) dt__page(t, "<tr><th scope=\"row\">%r</th><td>%s</td></tr>\n", name, text);
}

static int64_t bytes_in(const dt__branch *of, const char *name)
{
    const double n = dt__field_number(of, name);
    return isfinite(n) ? dt__whole(n) : 0;
}

/* Writes a row for each rank. */
static void put_memory(dt__chars *t, const dt__branch *machine)
{
    const dt__branch *all = dt__children(dt__field(machine, "memory"));
    const bool several = all != NULL && all->next != NULL;
    int64_t rank = 0;
    for (const dt__branch *of = all; of != NULL; of = of->next, rank++) {
        if (several) dt__page(t, "<tr><th scope=\"row\">memory of rank %d</th><td>", rank);
        else dt__put_text(t, "<tr><th scope=\"row\">memory while training</th><td>");
        dt__page(t, "%b: weights %b, gradient %b, ", bytes_in(of, "peak"), bytes_in(of, "weights"),
                 bytes_in(of, "gradient"));
        dt__page(t, "optimizer %b, activations and all else %b</td></tr>\n",
                 bytes_in(of, "optimizer"), bytes_in(of, "activations"));
    }
}

static void put_machine(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *m = r->machine.root;
    const double threads = dt__field_number(m, "threads"),
                 memory = dt__field_number(m, "peak_memory");
    dt__put_text(t, "<h3>Machine</h3>\n");
    if (m == NULL) {
        dt__put_text(t, "<p>It is written at a run's end.</p>\n");
        return;
    }
    dt__put_text(t, "<table class=\"files\"><tbody>\n");
    put_fact(t, "detent", dt__field_text(m, "version"));
    put_fact(t, "processor", dt__field_text(m, "processor"));
    put_fact(t, "kernels", dt__field_text(m, "kernels"));
    if (isfinite(threads)) {
        dt__page(t, "<tr><th scope=\"row\">threads</th><td>%g</td></tr>\n", threads);
    }
    if (isfinite(memory)) {
        dt__page(t, "<tr><th scope=\"row\">most memory of tensors</th><td>%b</td></tr>\n",
                 dt__whole(memory));
    }
    put_memory(t, m);
    dt__put_text(t, "</tbody></table>\n");
}

/* Writes a word for a shell, in quotes if necessary. */
static void put_word(dt__chars *t, const char *word)
{
    const bool plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "_-./") == strlen(word);
    if (!plain) dt__put_text(t, "&#39;");
    for (const char *c = word; *c != 0; c++) {
        const char one[] = { *c, 0 };
        if (*c == '\'') dt__put_text(t, "&#39;\\&#39;&#39;");
        else if (strchr("&<>\"", *c) != NULL) dt__page(t, "%s", one);
        else dt__put(t, c, 1);
    }
    if (!plain) dt__put_text(t, "&#39;");
}

static void put_command(dt__chars *t, const char *before, const char *dir, const char *after)
{
    dt__put_text(t, before);
    put_word(t, dir);
    dt__put_text(t, after);
}

static void put_commands(dt__chars *t, const dt__page_run *r)
{
    dt__put_text(t, "<h3>To go on</h3><pre class=\"paste\">");
    put_command(t, "detent eval ", r->dir, "\n");
    put_command(t, "detent export ", r->dir, " --format c -o firmware\n");
    put_command(t, "detent export ", r->dir, " --format onnx -o model.onnx\n");
    put_command(t, "detent train ", r->dir, "/recipe.yaml run.dir=runs/next</pre>\n");
}

void dt__part_recipe(dt__chars *t, const dt__page_run *r)
{
    dt__part_begin(t, "recipe", "How it was made");
    dt__put_text(t, "<div class=\"columns\"><div>");
    put_files(t, r);
    dt__put_text(t, "</div><div>");
    put_machine(t, r);
    put_commands(t, r);
    dt__put_text(
        t, "</div></div>\n<details><summary>The resolved recipe</summary><pre class=\"recipe\">");
    dt__page(t, "%s</pre></details></section>\n", r->recipe);
}
