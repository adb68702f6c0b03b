/* Names of the four models that a run compares. */
#include "report/parts.h"

#include <stdio.h>
#include <string.h>

/* The names of the rows "float" and "ptq", by the weights that they are about. */
static const struct {
    const char *weights, *whole, *rounded;
} names[] = {
    { "baseline", "float baseline", "ptq of baseline" },
    { "start_step", "float, at step %s", "ptq, at step %s" },
    { "init", "float, model.init", "ptq, model.init" },
};

static bool is_named(const dt__page_run *r, const char *row, char text[DT__ROW_NAME])
{
    const bool rounded = strcmp(row, "ptq") == 0;
    const char *weights = dt__field_text(dt__field(r->summary.root, row), "weights");
    const dt__branch *training = dt__field(r->summary.root, "training");
    const bool is_said = dt__field(training, "start_step") != NULL; /* missing in older runs */
    char at[24];
    snprintf(at, sizeof at, "%lld", (long long)dt__field_whole(training, "start_step"));
    const char *step = is_said ? at : dt__page_key_of(r, "qat.start_step");
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        if (strcmp(names[i].weights, weights) != 0) continue;
        const char *form = rounded ? names[i].rounded : names[i].whole;
        const int before = (int)strcspn(form, "%");
        snprintf(text, DT__ROW_NAME, "%.*s%s", before, form, form[before] == 0 ? "" : step);
        return true;
    }
    return false;
}

void dt__page_row_name(const dt__page_run *r, const char *row, char text[DT__ROW_NAME])
{
    const char *rounder = dt__field_text(dt__field(r->summary.root, row), "rounder");
    if (is_named(r, row, text)) return;
    if (*rounder != 0 && strcmp(rounder, "nearest") != 0) {
        snprintf(text, DT__ROW_NAME, "qat + %s", rounder);
    } else {
        snprintf(text, DT__ROW_NAME, "%s", row);
    }
}
