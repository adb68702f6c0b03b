/* Weights of a file whose tensors have other names than the model's. The first rule that matches a
 * whole name renames the tensor, or leaves it out. */
#include "core/block_list.h"
#include "io/model/renamed_file.h"
#include "nn/module.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS 10 /* \0 ... \9 */

typedef struct renaming {
    const dt_file *file;
    const dt_name_rule *rule;
    int64_t n_rules, n_ready;
    regex_t *regex;
    dt__renamed *out;
} renaming;

dt_status dt_name_rule_check(dt_ctx *ctx, const dt_name_rule *rule)
{
    DT__NEED3(ctx, ctx, rule, rule->from);
    regex_t regex;
    char why[160];
    const int error = regcomp(&regex, rule->from, REG_EXTENDED);
    if (error != 0) {
        regerror(error, &regex, why, sizeof why);
        return dt_fail(ctx, DT_ERR_CONFIG, "'%.80s' is not an extended regular expression: %s",
                       rule->from, why);
    }
    const int groups = (int)regex.re_nsub;
    regfree(&regex);
    for (const char *at = rule->to == NULL ? "" : rule->to; *at != 0; at++) {
        if (*at != '\\') continue;
        if (*++at == '\\' || (*at >= '0' && *at <= '9' && *at - '0' <= groups)) continue;
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "'%.80s': \\0 to \\%d, parts of '%.80s', and \\\\ are known", rule->to,
                       groups, rule->from);
    }
    if (rule->skip == (rule->to == NULL || *rule->to == 0)) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "'%.80s': expected either the new name `to` or `skip`",
                   rule->from);
}

/* The new name, in the view's memory; NULL: NOMEM. */
static const char *replaced(renaming *r, const dt_name_rule *rule, const char *name,
                            const regmatch_t *part)
{
    size_t n = 1;
    for (const char *at = rule->to; *at != 0; at++) {
        const bool group = *at == '\\' && at[1] != '\\';
        const regmatch_t *p = group ? &part[at[1] - '0'] : NULL;
        n += p == NULL ? 1 : p->rm_so < 0 ? 0 : (size_t)(p->rm_eo - p->rm_so);
        at += *at == '\\';
    }
    char *text = dt__block_list_add(r->file->ctx, &r->out->view.arena, n), *to = text;
    for (const char *at = rule->to; text != NULL && *at != 0; at++) {
        const bool group = *at == '\\' && at[1] != '\\';
        const regmatch_t *p = group ? &part[at[1] - '0'] : NULL;
        at += *at == '\\';
        if (p == NULL) *to++ = *at;
        else if (p->rm_so >= 0) {
            memcpy(to, name + p->rm_so, (size_t)(p->rm_eo - p->rm_so));
            to += p->rm_eo - p->rm_so;
        }
    }
    if (text != NULL) *to = 0;
    return text;
}

/* Adds tensor i of the file to the view under its new name, unless it is left out. */
static dt_status take(renaming *r, int64_t i)
{
    const dt_file_entry *e = &r->file->entry[i];
    dt_file *view = &r->out->view;
    dt_file_entry *to = &view->entry[view->count];
    regmatch_t part[GROUPS];
    *to = *e;
    r->out->by[i] = -1;
    for (int64_t k = 0; k < r->n_rules; k++) {
        if (regexec(&r->regex[k], e->name, GROUPS, part, 0) != 0) continue;
        if (part[0].rm_so != 0 || e->name[part[0].rm_eo] != 0) continue;
        r->out->by[i] = k;
        if (r->rule[k].skip) return DT_OK;
        to->name = replaced(r, &r->rule[k], e->name, part);
        if (to->name == NULL) return DT_ERR_NOMEM;
        break;
    }
    r->out->from[view->count++] = i;
    return DT_OK;
}

static dt_status compile(renaming *r)
{
    dt_ctx *ctx = r->file->ctx;
    r->regex = dt__alloc_array(ctx, r->n_rules, sizeof *r->regex);
    if (r->regex == NULL) return DT_ERR_NOMEM;
    for (; r->n_ready < r->n_rules; r->n_ready++) {
        DT__TRY(dt_name_rule_check(ctx, &r->rule[r->n_ready]));
        if (regcomp(&r->regex[r->n_ready], r->rule[r->n_ready].from, REG_EXTENDED) == 0) continue;
        return dt_fail(ctx, DT_ERR_NOMEM, "no memory for a regular expression");
    }
    return DT_OK;
}

static dt_status rename_all(renaming *r)
{
    dt_ctx *ctx = r->file->ctx;
    dt_file *view = &r->out->view;
    const int64_t n = r->file->count;
    DT__TRY(compile(r));
    view->entry = dt__alloc_array(ctx, n, sizeof *view->entry);
    view->by_name = dt__alloc_array(ctx, n, sizeof *view->by_name);
    r->out->by = dt__alloc_array(ctx, n, sizeof *r->out->by);
    r->out->from = dt__alloc_array(ctx, n, sizeof *r->out->from);
    if (view->entry == NULL || view->by_name == NULL || r->out->by == NULL ||
        r->out->from == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) DT__TRY(take(r, i));
    for (int64_t i = 0; i < view->count; i++) view->by_name[i] = &view->entry[i];
    if (view->count > 0) {
        qsort(view->by_name, (size_t)view->count, sizeof *view->by_name, dt__by_entry_name);
    }
    return DT_OK;
}

dt_status dt__renamed_open(const dt_file *file, const dt_name_rule *rule, int64_t n,
                           dt__renamed *out)
{
    *out = (dt__renamed){ .view = *file };
    out->view.entry = NULL;
    out->view.by_name = NULL;
    out->view.arena = NULL;
    out->view.count = 0;
    renaming r = { .file = file, .rule = rule, .n_rules = n, .out = out };
    const dt_status s = rename_all(&r);
    while (r.n_ready > 0) regfree(&r.regex[--r.n_ready]);
    dt__release(file->ctx, r.regex);
    return s;
}

void dt__renamed_close(dt__renamed *r)
{
    dt_ctx *ctx = r->view.ctx;
    DT__RELEASE(ctx, r->view.entry, (void *)r->view.by_name, r->by, r->from);
    dt__block_list_free(ctx, &r->view.arena);
}

bool dt__renamed_uses(const dt__renamed *r, const dt_file *file, int64_t rule)
{
    for (int64_t i = 0; i < file->count; i++) {
        if (r->by[i] == rule) return true;
    }
    return false;
}

static dt_status check_used(const dt__renamed *r, const dt_file *file, const dt_name_rule *rule,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (dt__renamed_uses(r, file, i)) continue;
        return dt_fail(file->ctx, DT_ERR_CONFIG, "%s: '%.80s' matches the name of no tensor",
                       file->path, rule[i].from);
    }
    return DT_OK;
}

dt_status dt_model_load_renamed(dt_module *m, const char *path, const dt_name_rule *rule, int64_t n)
{
    DT__NEED(NULL, m);
    if (n > 0) DT__NEED(m->ctx, rule);
    dt_ctx *ctx = m->ctx;
    dt_file *file;
    if (n < 0 || n > DT_MAX_NAME_RULES) {
        return dt_fail(ctx, DT_ERR_ARG, "%lld rules for names; 0 to %d can be", (long long)n,
                       DT_MAX_NAME_RULES);
    }
    if (n == 0) return dt_model_load_weights(m, path);
    DT__TRY(dt_file_open(ctx, path, &file));
    dt_status s = dt_file_check(file);
    if (s == DT_OK) {
        dt__renamed r;
        s = dt__renamed_open(file, rule, n, &r);
        if (s == DT_OK) s = check_used(&r, file, rule, n);
        const dt__restoring restoring = { .file = &r.view, .m = m };
        if (s == DT_OK) s = dt__restore(&restoring);
        dt__renamed_close(&r);
    }
    dt_file_close(file);
    return s;
}
