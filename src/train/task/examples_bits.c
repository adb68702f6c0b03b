/* Examples of multi-label classification: for each label how many examples have it, how many of
 * them are found (logit above 0), and how many are found in all. */
#include "core/tensor.h"
#include "train/task/examples.h"

#include <string.h>

#define LABELS 64 /* that are shown at most */

typedef struct counts {
    int64_t wanted[LABELS], found[LABELS], both[LABELS];
} counts;

static dt_status count(const dt__examples *e, int64_t labels, counts *c)
{
    dt_tensor *x, *target;
    for (int64_t i = 0; i < e->n; i++) {
        DT__TRY(dt__examples_at(e, i, &x, &target));
        const float *bits = dt_data(target), *y = e->y + i * e->each;
        for (int64_t k = 0; k < labels; k++) {
            const bool wanted = bits[k] == 1, found = y[k] > 0;
            c->wanted[k] += wanted;
            c->found[k] += found;
            c->both[k] += wanted && found;
        }
    }
    return DT_OK;
}

static void put_count(dt__chars *t, const char *name, int64_t n) { DT__PUT_ALL(t, name, n); }

dt_status dt__examples_of_bits(const dt__examples *e)
{
    counts c;
    memset(&c, 0, sizeof c);
    const int64_t labels = dt__min_i64(e->each, LABELS);
    DT__TRY(count(e, labels, &c));
    dt__put_text(e->t, "\"labels\": [");
    for (int64_t k = 0; k < labels; k++) {
        dt__put_text(e->t, k > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ");
        dt__put_class(e, k);
        put_count(e->t, ", \"wanted\": ", c.wanted[k]);
        put_count(e->t, ", \"found\": ", c.found[k]);
        put_count(e->t, ", \"both\": ", c.both[k]);
        dt__put_text(e->t, "}");
    }
    dt__put_text(e->t, "]");
    return DT_OK;
}
