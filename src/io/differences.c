/* One message that lists all tensors that are missing, unexpected or of another form. */
#include "io/differences.h"
#include "core/tensor.h"

#include <stdio.h>
#include <string.h>

#define LISTED 4

const char *dt__form_text(const char *dtype, int rank, const int64_t *dims, char text[192])
{
    char shape[160] = "[...]";
    if (rank <= DT_MAX_RANK) dt__dims_text(rank, dims, shape, sizeof shape);
    snprintf(text, 192, "%s%s", dtype, shape);
    return text;
}

bool dt__wrong_full(const dt__wrong_names *l) { return l->n > LISTED; }

void dt__wrong_add(dt__wrong_names *l, const char *name, const char *detail)
{
    char shown[DT__SHOWN];
    const size_t used = strlen(l->text);
    const size_t room = sizeof l->text - used;
    if (l->n < LISTED) {
        snprintf(l->text + used, room, "%s%s%s", l->n == 0 ? "" : ", ", dt__shown(name, shown),
                 detail);
    } else if (l->n == LISTED) {
        snprintf(l->text + used, room, ", ...");
    }
    l->n++;
}

dt_status dt__differences_report(const dt_file *file, const dt__differences *d)
{
    static const char *const what[] = { "missing", "not of this model", "of another form" };
    char text[DT__MESSAGE_SIZE] = "";
    for (int i = 0; i < DT__DIFFERENCES; i++) {
        const dt__wrong_names *l = &d->of[i];
        const size_t used = strlen(text);
        if (l->n == 0) continue;
        snprintf(text + used, sizeof text - used, "%s%d %s (%s)", used == 0 ? "" : "; ", l->n,
                 what[i], l->text);
    }
    if (*text == 0) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: %s: %s", file->path,
                   file->part == NULL ? "a file of another model"
                                      : "its tensors are not those of its config.json",
                   text);
}
