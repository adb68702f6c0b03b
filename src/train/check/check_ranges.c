/* Keys of ranges that nothing in the recipe reads. */
#include "qat/schemes/scheme.h"
#include "train/recipe/recipe.h"

#define BIT(choice) (1U << (choice))

/* Ranges and observers of activations that occur anywhere in `qat`, one bit each. Several rules may
 * match one module, so a range of one rule may combine with an observer of another. */
typedef struct ranges {
    unsigned ranges, observers;
} ranges;

static void add(ranges *all, const dt_quant_spec *q)
{
    all->ranges |= BIT(q->range);
    all->observers |= BIT(q->observer);
}

static ranges ranges_of(const dt_recipe *r)
{
    const dt_qat_options *q = &r->options.qat;
    ranges all = { 0 };
    dt_quant_spec weight, activation;
    dt_qat_preset(q->preset, &weight, &activation);
    dt_quant_apply(&activation, &q->activation);
    add(&all, &activation);
    for (int64_t i = 0; i < q->n_rules; i++) {
        dt_quant_spec a = activation;
        dt_quant_apply(&a, &q->rules[i].activation);
        add(&all, &a);
    }
    return all;
}

/* Keys of activations that only some ranges, and some of their observers, read. */
static const struct {
    const char *name;
    int range;
    unsigned observers;
    const char *words;
} ranged[] = {
    { "observer", DT_RANGE_STATIC, ~0U, "only a static range is observed" },
    { "percentile", DT_RANGE_STATIC, BIT(DT_OBSERVER_PERCENTILE),
      "only observer percentile of a static range has it" },
    { "samples", DT_RANGE_STATIC, BIT(DT_OBSERVER_PERCENTILE),
      "only observer percentile of a static range keeps samples" },
    { "averaging", DT_RANGE_STATIC, BIT(DT_OBSERVER_MOVING_AVERAGE) | BIT(DT_OBSERVER_MSE),
      "only observers moving_average and mse of a static range average" },
    { "shift", DT_RANGE_LEARNED, ~0U, DT__SHIFT_IS_LEARNED },
    { "low", DT_RANGE_FIXED, ~0U, "only a fixed range is given by its ends" },
    { "high", DT_RANGE_FIXED, ~0U, "only a fixed range is given by its ends" },
    { "save", DT_RANGE_LEARNED, ~0U, "only a learned range chooses what backward keeps" },
};

static void check_ranged(dt_recipe *r, const char *path, const ranges *all)
{
    const char *map = dt__recipe_join(r, path, "activation");
    for (int i = 0; i < DT__COUNT_OF(ranged); i++) {
        if ((all->ranges & BIT(ranged[i].range)) && (all->observers & ranged[i].observers))
            continue;
        dt__node *node = dt__given(r, dt__recipe_join(r, map, ranged[i].name));
        if (node != NULL)
            dt__complain(r, node, "'%s.%s': %s", map, ranged[i].name, ranged[i].words);
    }
}

void dt__recipe_check_ranges(dt_recipe *r)
{
    const dt_qat_options *q = &r->options.qat;
    bool bad = dt__is_bad(r, "qat.preset") || dt__has_bad(r, "qat.activation");
    for (int64_t i = 0; i < q->n_rules && !r->out_of_memory; i++) {
        bad |= dt__has_bad(r, dt__recipe_format(r, "qat.rules.%lld.activation", (long long)i));
    }
    if (bad || dt__given(r, "qat") == NULL) return;
    const ranges all = ranges_of(r);
    check_ranged(r, "qat", &all);
    for (int64_t i = 0; i < q->n_rules && !r->out_of_memory; i++) {
        check_ranged(r, dt__recipe_format(r, "qat.rules.%lld", (long long)i), &all);
    }
    /* Recipes printed by `detent config show` contain the default: accept it. */
    dt__node *batches = dt__given(r, "qat.calibrate_batches");
    const bool read = (all.ranges & BIT(DT_RANGE_STATIC)) != 0;
    const bool usual =
        r->options.qat_schedule.calibrate_batches == dt_qat_schedule_defaults().calibrate_batches;
    if (batches == NULL || read || usual) return;
    dt__complain(r, batches,
                 "'qat.calibrate_batches' is for static ranges of activations, and there are none");
}
