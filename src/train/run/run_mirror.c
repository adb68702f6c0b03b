/* metrics.csv and events for TensorBoard, written along with metrics.jsonl. When a run is resumed,
 * both are rewritten from the remaining lines of metrics.jsonl. */
#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"
#include "train/run/mirror.h"
#include "train/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CSV "metrics.csv"
#define EVENTS "events.out.tfevents.detent"
#define COLUMNS (14 + DT_MAX_METRICS)

/* The columns of the CSV file: fields of training lines, then of validation lines. */
static void name_columns(const dt__run *r, char metric[DT_MAX_METRICS][DT_MAX_METRIC_NAME],
                         const char *columns[COLUMNS])
{
    static const char *const first[] = { "step",    "epoch", "phase",   "loss",         "grad_norm",
                                         "clipped", "lr",    "skipped", "samples_per_s" };
    int n = 0;
    for (int i = 0; i < DT__COUNT_OF(first); i++) columns[n++] = first[i];
    if (dt_dataset_context(r->data.train) > 0) columns[n++] = "tokens_per_s";
    for (int i = 0; i < r->data.n_metrics && r->data.validation != NULL; i++) {
        snprintf(metric[i], sizeof metric[i], "validation_%s", r->data.metric[i]->name);
        columns[n++] = metric[i];
    }
    columns[n] = NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Appends a text to a file; `made`: creates the file. */
static dt_status append(dt__run *r, const char *name, dt__chars *t, bool made)
{
    char path[DT__RUN_PATH];
    if (t->failed) return DT_ERR_NOMEM;
    DT__TRY(dt__run_path(r, name, path));
    const int file =
        dt__sys_open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (made ? O_TRUNC : O_APPEND));
    if (file < 0) return dt__file_fail(r->ctx, "open", path, errno);
    ssize_t n = 0;
    for (size_t done = 0; done < t->used && n >= 0; done += (size_t)(n > 0 ? n : 0)) {
        n = dt__sys_write(file, t->bytes + done, t->used - done);
    }
    const int error = n < 0 ? errno : 0;
    if (dt__sys_close(file) == 0 && n >= 0) return DT_OK;
    return dt__file_fail(r->ctx, "write", path, error != 0 ? error : errno);
}

typedef struct mirrors {
    dt__chars csv, events;
} mirrors;

static void put_line(dt__run *r, mirrors *m, const dt__branch *line)
{
    char metric[DT_MAX_METRICS][DT_MAX_METRIC_NAME];
    const char *columns[COLUMNS];
    name_columns(r, metric, columns);
    const bool numbers = dt__field(line, "layers") == NULL && dt__field(line, "samples") == NULL;
    if (numbers) dt__put_csv_row(&m->csv, line, columns);
    dt__put_events(&m->events, line, now());
}

static dt_status write_both(dt__run *r, mirrors *m, bool made)
{
    const dt_log_options *o = &r->o->train.log;
    dt_status s = DT_OK;
    if (o->csv) s = append(r, CSV, &m->csv, made);
    if (o->tensorboard && s == DT_OK) s = append(r, EVENTS, &m->events, made);
    DT__RELEASE(r->ctx, m->csv.bytes, m->events.bytes);
    return s;
}

static bool is_wanted(const dt__run *r)
{
    return dt__run_writes(r) && (r->o->train.log.csv || r->o->train.log.tensorboard);
}

dt_status dt__run_mirror(dt__run *r, const char *line, size_t bytes)
{
    dt__tree tree;
    mirrors m = { { .ctx = r->ctx }, { .ctx = r->ctx } };
    if (!is_wanted(r)) return DT_OK;
    DT__TRY(dt__tree_read(r->ctx, "metrics.jsonl", line, bytes, &tree));
    put_line(r, &m, tree.root);
    dt__tree_free(&tree);
    return write_both(r, &m, false);
}

/* The text of metrics.jsonl. */
static dt_status read_lines(dt__run *r, dt__chars *t)
{
    char buffer[4096];
    ssize_t n;
    for (off_t at = 0; (n = dt__sys_read_at(r->files.metrics, buffer, sizeof buffer, at)) > 0;
         at += n) {
        dt__put(t, buffer, (size_t)n);
    }
    if (n < 0) return dt__file_fail(r->ctx, "read", "metrics.jsonl", errno);
    return dt__chars_text(t) == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* Writes the heads and the existing lines. Damaged lines are left out. */
static dt_status put_all(dt__run *r, mirrors *m, const char *text)
{
    char metric[DT_MAX_METRICS][DT_MAX_METRIC_NAME];
    const char *columns[COLUMNS];
    name_columns(r, metric, columns);
    dt__put_csv_head(&m->csv, columns);
    dt__put_events_head(&m->events, now());
    for (const char *line = text; *line != 0;) {
        dt__tree tree;
        const size_t n = strcspn(line, "\n");
        const dt_status s = dt__tree_read(r->ctx, "metrics.jsonl", line, n, &tree);
        if (s == DT_ERR_NOMEM) return s;
        if (s == DT_OK) put_line(r, m, tree.root);
        dt__tree_free(&tree);
        line += n + (line[n] != 0);
    }
    return DT_OK;
}

dt_status dt__run_begin_mirror(dt__run *r)
{
    dt__chars lines = { .ctx = r->ctx };
    mirrors m = { { .ctx = r->ctx }, { .ctx = r->ctx } };
    if (!is_wanted(r)) return DT_OK;
    dt_status s = read_lines(r, &lines);
    if (s == DT_OK) s = put_all(r, &m, lines.bytes);
    dt__release(r->ctx, lines.bytes);
    if (s == DT_OK) return write_both(r, &m, true);
    DT__RELEASE(r->ctx, m.csv.bytes, m.events.bytes);
    return s;
}
