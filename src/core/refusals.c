/* Collects everything that is refused into one error, before anything is done. */
#include "core/refusals.h"

#include <stdio.h>
#include <string.h>

void dt__refusals_add(dt__refusals *r, const char *format, ...)
{
    char line[320] = "\n  ";
    const size_t room = sizeof r->text - r->used;
    DT__FORMAT(line + 3, sizeof line - 3, format);
    if (strstr(r->text, line) != NULL) return;
    r->n++;
    if (strlen(line) + 120 > room) r->hidden++;
    else r->used += (size_t)snprintf(r->text + r->used, room, "%s", line);
}

void dt__refusals_add_place(dt__refusals *r, const char *where, const char *why)
{
    for (int i = 0; i < r->n_reasons; i++) {
        if (strcmp(r->reason[i].why, why) != 0) continue;
        r->reason[i].more++;
        return;
    }
    if (r->n_reasons == DT__REFUSED_REASONS) {
        r->n++;
        r->hidden++;
        return;
    }
    const int i = r->n_reasons++;
    snprintf(r->reason[i].where, sizeof r->reason[i].where, "%s", where);
    snprintf(r->reason[i].why, sizeof r->reason[i].why, "%s", why);
    r->reason[i].more = 0;
}

dt_status dt__refusals_end(dt_ctx *ctx, dt__refusals *r, dt_status status, const char *head, ...)
{
    char what[160];
    for (int i = 0; i < r->n_reasons; i++) {
        char more[40] = "";
        if (r->reason[i].more > 0) {
            snprintf(more, sizeof more, " and %lld more", (long long)r->reason[i].more);
        }
        dt__refusals_add(r, "%s%s: %s", r->reason[i].where, more, r->reason[i].why);
    }
    if (r->n == 0) return DT_OK;
    if (r->hidden > 0) {
        snprintf(r->text + r->used, sizeof r->text - r->used, "\n  and %lld more",
                 (long long)r->hidden);
    }
    DT__FORMAT(what, sizeof what, head);
    return dt_fail(ctx, status, "%s:%s", what, r->text);
}
