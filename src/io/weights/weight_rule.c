/* Patterns of names as regular expressions: "features.{i}.weight" is features\.([^./]+)\.weight. */
#include "core/block_list.h"
#include "io/weights/weights.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define SPECIAL ".[()*+?^$|\\" /* in extended regular expressions */
#define MOST 9                 /* \1 to \9 */
#define LONGEST 8              /* letters that one letter of a pattern may need */

const char *const dt_weight_layouts[] = { "pytorch", "keras", NULL };

typedef struct place {
    const char *name;
    size_t n;
    bool dots;
} place;

typedef struct places {
    place of[MOST];
    int n;
} places;

/* Parses the placeholder at `at` and returns its end; NULL: not a placeholder. */
static const char *read_place(const char *at, place *p)
{
    p->name = at + 1;
    p->n = strspn(p->name, LETTERS);
    p->dots = strncmp(p->name + p->n, "...", 3) == 0;
    const char *end = p->name + p->n + (p->dots ? 3 : 0);
    return p->n > 0 && *end == '}' ? end + 1 : NULL;
}

static int find(const places *all, const place *p)
{
    for (int i = 0; i < all->n; i++) {
        if (all->of[i].n == p->n && memcmp(all->of[i].name, p->name, p->n) == 0) return i;
    }
    return -1;
}

static dt_status refuse(dt_ctx *ctx, const char *pattern, const char *why)
{
    return dt_fail(ctx, DT_ERR_CONFIG, "'%.80s' is not a valid pattern: %s", pattern, why);
}

#define FORM "{name} and {name...} are placeholders, of letters, digits and _"

/* Writes the regular expression for `from`. */
static dt_status put_from(dt_ctx *ctx, const char *from, places *all, char *to)
{
    for (const char *at = from; *at != 0;) {
        if (*at != '{') {
            if (*at == '}') return refuse(ctx, from, FORM);
            if (strchr(SPECIAL, *at) != NULL) *to++ = '\\';
            *to++ = *at++;
            continue;
        }
        if (all->n == MOST) return refuse(ctx, from, "it has more than 9 placeholders");
        place *p = &all->of[all->n];
        at = read_place(at, p);
        if (at == NULL) return refuse(ctx, from, FORM);
        if (find(all, p) >= 0) return refuse(ctx, from, "it has a placeholder twice");
        all->n++;
        to = stpcpy(to, p->dots ? "(.+)" : "([^./]+)");
    }
    *to = 0;
    return DT_OK;
}

static dt_status put_to(dt_ctx *ctx, const char *name, const places *all, char *to)
{
    place p;
    for (const char *at = name; *at != 0;) {
        if (*at != '{') {
            if (*at == '}') return refuse(ctx, name, FORM);
            if (*at == '\\') *to++ = '\\';
            *to++ = *at++;
            continue;
        }
        at = read_place(at, &p);
        if (at == NULL) return refuse(ctx, name, FORM);
        const int i = find(all, &p);
        if (i < 0) return refuse(ctx, name, "it has a placeholder that the tensor's pattern lacks");
        *to++ = '\\';
        *to++ = (char)('1' + i);
    }
    *to = 0;
    return DT_OK;
}

static bool is_order(const dt_ints *order)
{
    unsigned seen = 0;
    for (int i = 0; i < order->n; i++) {
        if (order->v[i] < 0 || order->v[i] >= order->n || order->n > DT_MAX_RANK) return false;
        seen |= 1u << order->v[i];
    }
    return seen == (1u << order->n) - 1;
}

static dt_status check_settings(dt_ctx *ctx, const dt_weight_rule *r)
{
    const bool has_name = r->to != NULL && *r->to != 0;
    const bool turns = r->transpose || r->permute.n > 0 || r->shape.n > 0;
    const char *why = NULL;
    if (r->from == NULL || *r->from == 0) why = "the pattern is empty";
    else if (r->skip == has_name) why = "requires either the new name 'to' or 'skip: true'";
    else if (r->skip && turns) why = "leaves tensors out, whose order says nothing";
    else if (r->transpose && r->permute.n > 0) why = "has both 'transpose' and 'permute'";
    else if (!is_order(&r->permute)) why = "'permute' must have each of 0 to n-1 once, n at most 8";
    else if (r->shape.n > DT_MAX_RANK) why = "'shape' must have at most 8 dimensions";
    for (int i = 0; why == NULL && i < r->shape.n; i++) {
        if (r->shape.v[i] < 1) why = "'shape' must have dimensions of 1 or more";
    }
    if (why == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "'%.80s': %s", r->from == NULL ? "" : r->from, why);
}

dt_status dt__weight_rule_names(dt_ctx *ctx, void **arena, const dt_weight_rule *rule,
                                dt_name_rule *out)
{
    places all = { .n = 0 };
    DT__TRY(check_settings(ctx, rule));
    char *from = dt__block_list_add(ctx, arena, LONGEST * strlen(rule->from) + 1);
    char *to = rule->skip ? NULL : dt__block_list_add(ctx, arena, LONGEST * strlen(rule->to) + 1);
    if (from == NULL || (to == NULL && !rule->skip)) return DT_ERR_NOMEM;
    *out = (dt_name_rule){ .from = from, .to = to, .skip = rule->skip };
    DT__TRY(put_from(ctx, rule->from, &all, from));
    return rule->skip ? DT_OK : put_to(ctx, rule->to, &all, to);
}

dt_status dt_weight_rule_check(dt_ctx *ctx, const dt_weight_rule *rule)
{
    DT__NEED2(ctx, ctx, rule);
    void *arena = NULL;
    dt_name_rule names;
    const dt_status s = dt__weight_rule_names(ctx, &arena, rule, &names);
    dt__block_list_free(ctx, &arena);
    return s;
}
