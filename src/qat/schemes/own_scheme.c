/* own: a scheme that a program or a plugin registered. Its function computes the scales, which are
 * limited and rounded as those of all schemes; zero = 0. */
#include "qat/schemes/scheme.h"

#include <string.h>

const dt__scheme dt__scheme_own = { .name = "own", .text = "one that a plugin has registered" };

const dt_own_scheme *dt_scheme_named(const dt_ctx *ctx, const char *name)
{
    if (ctx == NULL || name == NULL) return NULL;
    return dt__registered_named(ctx, DT__SCHEMES_OWN, name);
}

/* Whether a scheme of detent, or a registered one, has this name. */
static bool is_taken(const dt_ctx *ctx, const char *name)
{
    for (int i = 0; i <= DT_SCHEME_OWN; i++) {
        if (strcmp(dt__scheme_of(i)->name, name) == 0) return true;
    }
    return dt_scheme_named(ctx, name) != NULL;
}

dt_status dt_scheme_register(dt_ctx *ctx, const dt_own_scheme *scheme)
{
    DT__NEED2(ctx, ctx, scheme);
    if (scheme->name == NULL || *scheme->name == 0 || scheme->scale == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "scheme: a name and a function must be given");
    }
    if (is_taken(ctx, scheme->name)) {
        return dt_fail(ctx, DT_ERR_ARG, "scheme: there is a scheme '%s' already", scheme->name);
    }
    return dt__register(ctx, DT__SCHEMES_OWN, scheme);
}

void dt__find_scheme(const dt_ctx *ctx, dt_quant_spec *q)
{
    q->is_own = q->scheme == DT_SCHEME_OWN;
    if (!q->is_own) q->own = NULL;
    q->of = dt_scheme_named(ctx, q->own);
    /* this copy of the name lives as long as the process */
    if (q->of != NULL) q->own = q->of->name;
}
