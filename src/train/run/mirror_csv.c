/* Lines of metrics as rows of a CSV file. */
#include "train/run/mirror.h"

#include <math.h>
#include <string.h>

/* Quotes a cell that contains a comma, a quote or a line break. */
static void put_cell(dt__chars *t, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        dt__put_text(t, text);
        return;
    }
    dt__put_text(t, "\"");
    for (const char *c = text; *c != 0; c++) {
        if (*c == '"') dt__put_text(t, "\"");
        dt__put(t, c, 1);
    }
    dt__put_text(t, "\"");
}

void dt__put_csv_head(dt__chars *t, const char *const *columns)
{
    for (int i = 0; columns[i] != NULL; i++) {
        if (i > 0) dt__put_text(t, ",");
        put_cell(t, columns[i]);
    }
    dt__put_text(t, "\r\n");
}

void dt__put_csv_row(dt__chars *t, const dt__branch *line, const char *const *columns)
{
    for (int i = 0; columns[i] != NULL; i++) {
        const double number = dt__field_number(line, columns[i]);
        if (i > 0) dt__put_text(t, ",");
        if (isfinite(number)) dt__put_real(t, number);
        else put_cell(t, dt__field_text(line, columns[i]));
    }
    dt__put_text(t, "\r\n");
}
