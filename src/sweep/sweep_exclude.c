/* `exclude` of a sweep: a list of rules, each a map from keys of the sweep to a value or a list of
 * values. A combination is excluded if, for each key of a rule, it has one of the rule's values. */
#include "sweep/sweep_plan.h"

#include <string.h>

static int key_of(const dt_sweep *s, const char *path)
{
    int k = 0;
    while (k < s->n_keys && strcmp(s->path[k], path) != 0) k++;
    return k;
}

/* Whether two values are equal, as texts or as numbers. */
static bool same(dt_sweep *s, const dt__node *a, const dt__node *b)
{
    double x, y;
    if (a->kind != b->kind) return false;
    const bool numbers = a->kind == DT__SCALAR && dt__parse_real(a->text, &x) == DT__NUMBER &&
                         dt__parse_real(b->text, &y) == DT__NUMBER;
    if (numbers) return x == y;
    const char *one = dt__node_text(s->file, a), *other = dt__node_text(s->file, b);
    return one != NULL && other != NULL && strcmp(one, other) == 0;
}

/* Whether `value`, or an item of it if it is a list, equals this value of a key. */
static bool names(dt_sweep *s, const dt__node *value, const dt__node *of_key)
{
    if (same(s, value, of_key)) return true;
    if (value->kind != DT__SEQUENCE) return false;
    for (const dt__node *item = value->first; item != NULL; item = item->next) {
        if (same(s, item, of_key)) return true;
    }
    return false;
}

static bool is_among(dt_sweep *s, const dt__node *value, const dt__swept *k)
{
    for (const dt__node *v = k->value->first; v != NULL; v = v->next) {
        if (same(s, value, v)) return true;
    }
    return false;
}

/* Refuses a value that the key does not have: it would exclude nothing, silently. */
static void check_value(dt_sweep *s, dt__node *value)
{
    const int at = key_of(s, value->key->text);
    if (at == s->n_keys) {
        dt__complain(s->file, value->key, "'exclude' names '%s', which is none of the sweep's keys",
                     value->key->text);
        return;
    }
    const dt__swept *k = &s->key[at];
    if (k->is_range) {
        dt__complain(s->file, value, "'%s' is a range; rules exclude values of lists", k->path);
        return;
    }
    if (is_among(s, value, k)) return;
    if (value->kind != DT__SEQUENCE || value->count == 0) {
        dt__complain(s->file, value, "'%s' has no value %s to exclude", k->path,
                     dt__recipe_quote(s->file, value));
        return;
    }
    for (dt__node *item = value->first; item != NULL; item = item->next) {
        if (is_among(s, item, k)) continue;
        dt__complain(s->file, item, "'%s' has no value %s to exclude", k->path,
                     dt__recipe_quote(s->file, item));
    }
}

void dt__sweep_read_exclude(dt_sweep *s, dt__node *rules)
{
    const bool is_list = rules->kind == DT__SEQUENCE && rules->count > 0;
    for (dt__node *rule = is_list ? rules->first : NULL; rule != NULL; rule = rule->next) {
        if (rule->kind != DT__MAP || rule->count == 0) {
            dt__complain(s->file, rule,
                         "a rule of 'exclude' must be a map of keys and values, such as "
                         "{qat.weight.bits: 2}, not %s",
                         rule->kind == DT__MAP ? "none" : dt__recipe_quote(s->file, rule));
            continue;
        }
        for (dt__node *value = rule->first; value != NULL; value = value->next) {
            check_value(s, value);
        }
    }
    if (!is_list) {
        dt__complain(s->file, rules,
                     "'exclude' must be a list of rules, such as [{qat.weight.bits: 2}]");
    }
    s->exclude = rules;
}

bool dt__sweep_excludes(dt_sweep *s, const dt__trial *t)
{
    if (s->exclude == NULL) return false;
    for (const dt__node *rule = s->exclude->first; rule != NULL; rule = rule->next) {
        const dt__node *value = rule->first;
        while (value != NULL && names(s, value, t->value[key_of(s, value->key->text)])) {
            value = value->next;
        }
        if (value == NULL) return true;
    }
    return false;
}
