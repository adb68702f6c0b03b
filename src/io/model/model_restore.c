/* Restores a module from a file, in the four steps of model_restore.h. */
#include "io/model/model_restore.h"

#include "io/model/model_base.h"

dt_status dt__load_refuse(const dt__load *l, const char *path, const char *what)
{
    char shown[DT__SHOWN];
    return dt_fail(l->ctx, DT_ERR_FORMAT, "%s: " DT__KEY_QUANT ": module '%s': %s", l->file->path,
                   dt__shown(path, shown), what);
}

static dt_status restore(dt__load *l, dt__load_made *made, dt__load_plan *plan)
{
    DT__TRY(dt__model_meta_read(l->file, &l->meta));
    DT__TRY(dt__load_make(l, made));
    DT__TRY(dt__load_plan_make(l, plan));
    DT__TRY(dt__load_read(plan, made));
    return dt__load_commit(plan);
}

static dt_status restore_fitted(const dt__restoring *r, const dt_file *file)
{
    dt__load l = { .ctx = r->m->ctx,
                   .r = r,
                   .file = file,
                   .beside = dt__has_base(r->file),
                   .meta.ctx = r->m->ctx };
    dt__load_made made = { 0 };
    dt__load_plan plan = { 0 };
    const dt_status s = restore(&l, &made, &plan);
    dt__load_made_end(&l, &made, s == DT_OK);
    dt__load_plan_free(&plan);
    dt__model_meta_free(&l.meta);
    if (s == DT_OK && r->after != NULL) r->after(r->user);
    return s;
}

/* How the file stores experts, for DT_GROUPED_...; a Hugging Face folder's form is not kept. */
static int form_of(const dt__fit *fit)
{
    return fit->joined > 0 && fit->view.part == NULL ? DT_GROUPED_EXPERTS : DT_GROUPED_STACKED;
}

dt_status dt__restore(const dt__restoring *r)
{
    dt__groups groups;
    dt__fit fit;
    DT__TRY(dt__file_check_unread(r->file));
    DT__TRY(dt__groups_of(r->m, &groups));
    dt_status s = dt__fit_open(r->file, &groups, &fit);
    if (s == DT_OK) s = restore_fitted(r, &fit.view);
    if (r->grouped != NULL) *r->grouped = form_of(&fit);
    dt__fit_free(&fit);
    dt__groups_free(&groups);
    return s;
}
