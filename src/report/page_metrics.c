/* How metrics are shown, by their names in files (docs/run.md has their formulas). */
#include "core/text/row_named.h"
#include "report/parts.h"

#include <math.h>
#include <string.h>

static const dt__page_metric metrics[] = {
    { "accuracy", "accuracy", "%", 100, 2, true },
    { "top5", "top 5", "%", 100, 2, true },
    { "macro_f1", "macro F1", "%", 100, 2, true },
    { "dice", "dice", "%", 100, 2, true },
    { "pixel_accuracy", "pixel accuracy", "%", 100, 2, true },
    { "exact_match", "exact match", "%", 100, 2, true },
    { "average_precision", "average precision", "%", 100, 2, true },
    { "auc", "AUC", "%", 100, 2, true },
    { "recording_auc", "AUC of recordings", "%", 100, 2, true },
    { "psnr_mean_of_images", "PSNR", "dB", 1, 2, true },
    { "psnr_of_mean_error", "PSNR of mse", "dB", 1, 2, true },
    { "r2", "R²", "", 1, 4, true },
    { "mae", "mae", "", 1, 4, false },
    { "rmse", "rmse", "", 1, 4, false },
    { "mse", "mse", "", 1, 6, false },
    { "perplexity", "perplexity", "", 1, 3, false },
    { "loss", "loss", "", 1, 4, false },
};

/* With several outputs, "OUTPUT.accuracy" is an accuracy. */
static const dt__page_metric *find(const char *name)
{
    const char *dot = strrchr(name, '.'), *measure = dot == NULL ? name : dot + 1;
    return DT__ROW_NAMED(metrics, measure);
}

bool dt__page_metric_is_known(const char *name) { return find(name) != NULL; }

dt__page_metric dt__page_metric_of(const char *name)
{
    const dt__page_metric *known = find(name);
    dt__page_metric m = known != NULL ? *known : (dt__page_metric){ name, name, "", 1, 4, false };
    if (strchr(name, '.') != NULL) m.name = m.title = name;
    return m;
}

/* A language model is shown by its perplexity rather than the share of right tokens. */
dt__page_metric dt__page_first_metric(const dt__page_run *r)
{
    const dt__branch *row = dt__field(r->summary.root, "converted");
    if (dt__children(row) == NULL) row = dt__field(r->summary.root, "float");
    const dt__branch *first = dt__children(row);
    if (first == NULL) return (dt__page_metric){ "", "", "", 1, 4, false };
    const bool running_text =
        dt__field(row, "perplexity") != NULL && dt__field(row, "exact_match") == NULL;
    return dt__page_metric_of(running_text ? "perplexity" : first->name);
}

void dt__put_metric(dt__chars *t, const dt__page_metric *m, double value)
{
    dt__page_fixed(t, value * m->scale, m->decimals);
    if (*m->unit != 0 && isfinite(value)) dt__page(t, " %s", m->unit);
}
