/* The recipes of a search's runs: its recipe, plus rules for layers, a folder and a seed. */
#include "sweep/search.h"

#include "core/text/json.h"

#include <stdio.h>

/* Writes qat.rules.N={match: PATH, weight: {...}}. */
static dt_status write_rule(const dt__searching *a, const dt__search_layer *l, const dt__choice *c,
                            char text[DT__SEARCH_OVERRIDE])
{
    dt__chars t = { .ctx = a->s.ctx };
    dt__put_quoted(&t, l->path);
    const char *path = dt__chars_text(&t);
    char scales[96] = "";
    if (c->group_size == 0) snprintf(scales, sizeof scales, ", granularity: channel");
    if (c->group_size > 0) {
        snprintf(scales, sizeof scales, ", granularity: group, group_size: %lld",
                 (long long)c->group_size);
    }
    const long long n = a->s.o->qat.n_rules + (l - a->s.layer);
    const int length = path == NULL ? 0
                                    : snprintf(text, DT__SEARCH_OVERRIDE,
                                               "qat.rules.%lld={match: %s, weight: {bits: %d%s}}",
                                               n, path, c->bits, scales);
    dt__release(a->s.ctx, t.bytes);
    if (path == NULL) return DT_ERR_NOMEM;
    if (length > 0 && length < DT__SEARCH_OVERRIDE) return DT_OK;
    return dt_fail(a->s.ctx, DT_ERR_CONFIG, "the path of a layer is too long");
}

const dt__choice *dt__search_choice_of(const dt__searching *a, const dt__search_layer *l,
                                       dt__search_form which)
{
    if (which == DT__AUTOMATIC) return &l->choice[l->chosen];
    return &l->choice[l->uniform[a->summary->uniform_bits]];
}

dt_status dt__search_recipe(dt__searching *a, dt__search_form which, int64_t seed, const char *name,
                            dt_recipe **out)
{
    dt_recipe_source source = *a->source;
    char dir[DT__JOB_PATH + 16], seed_text[48];
    int n = source.n_overrides;
    *out = NULL;
    for (int64_t i = 0; i < a->s.n; i++) {
        const dt__search_layer *l = &a->s.layer[i];
        DT__TRY(write_rule(a, l, dt__search_choice_of(a, l, which), a->text[i]));
        a->override[n++] = a->text[i];
    }
    const int length = snprintf(dir, sizeof dir, "run.dir=%s/%s", a->summary->dir, name);
    if (length < 0 || length >= DT__JOB_PATH) {
        return dt_fail(a->s.ctx, DT_ERR_IO, "the path of the run %s is too long", name);
    }
    snprintf(seed_text, sizeof seed_text, "run.seed=%lld", (long long)(a->s.o->run.seed + seed));
    a->override[n++] = dir;
    a->override[n++] = seed_text;
    source.overrides = a->override;
    source.n_overrides = n;
    source.told = true;
    const dt_status status = dt_recipe_read(a->s.ctx, &source, out);
    if (status == DT_ERR_CONFIG) {
        dt_recipe_free(*out);
        *out = NULL;
    }
    return status;
}

void dt__search_name(const dt__searching *a, dt__search_form which, int64_t seed, char name[64])
{
    snprintf(name, 64, "%s-seed%lld", which == DT__UNIFORM ? "uniform" : "automatic",
             (long long)(a->s.o->run.seed + seed));
}

dt_status dt__search_make_room(dt__searching *a)
{
    const int given = a->source->n_overrides;
    a->text = dt__alloc_array(a->s.ctx, a->s.n, sizeof *a->text);
    a->override = dt__alloc_array(a->s.ctx, given + a->s.n + 2, sizeof *a->override);
    if (a->text == NULL || a->override == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < given; i++) a->override[i] = a->source->overrides[i];
    return DT_OK;
}
