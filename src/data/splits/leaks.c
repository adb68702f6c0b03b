/* Finds data leaks (leaks.h). Examples with equal XXH3 of their bytes are taken as equal. An input
 * x determines a class if each class has one value of x, and no other class has it; it determines a
 * number y of a target if the squared correlation of the two,
 *     (n sum xy - sum x sum y)^2 / ((n sum x^2 - (sum x)^2) (n sum y^2 - (sum y)^2)),
 * is above 1 - 1e-9. Sums are of differences to the first row. */
#include "data/splits/leaks.h"

#include "core/text/json.h"
#include "data/arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define FEWEST 20
#define MOST_BYTES ((int64_t)1 << 30)
#define MOST_PAIRS ((int64_t)1 << 20) /* inputs times classes, or times numbers per target */
#define SAME (1 - 1e-9)

static const char *const part_keys[] = { "data.train", "data.validation", "data.test" };

typedef struct hashed {
    uint64_t hash;
    int64_t example; /* index in its part */
    int64_t trained; /* the first equal training example; -1: none */
} hashed;

static int by_hash(const void *a, const void *b)
{
    const hashed *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->example < y->example ? -1 : x->example > y->example;
}

static uint64_t hash_of(const dt_dataset *d, int64_t i)
{
    const dt__array_place at = dt__array_place_of(d->arrays, d->first + i);
    return XXH3_64bits(at.begin, (size_t)at.bytes);
}

/* "row 5 of 't.csv'" of an example of the store. */
static void name_example(const dt_dataset *d, int64_t i, char *text, size_t size)
{
    const dt__array_store *s = d->arrays;
    const int64_t example = d->first + i;
    int64_t r = 0;
    char shown[DT__SHOWN];
    while (s->recording[r].end <= example) r++;
    const int64_t before = r == 0 ? 0 : s->recording[r - 1].end;
    const char *name = s->source[s->recording[r].source].name;
    snprintf(text, size, "number %lld of '%s'",
             (long long)(s->recording[r].first + s->stride * (example - before)),
             dt__shown(name == NULL ? "" : name, shown));
}

static void say_same(const dt_dataset *const d[3], int part, int64_t n, const hashed *one)
{
    char own[DT__SHOWN + 40], other[DT__SHOWN + 40];
    if (n == 0) return;
    name_example(d[part], one->example, own, sizeof own);
    name_example(d[0], one->trained, other, sizeof other);
    dt__say(d[0]->ctx,
            "warning: %s: %lld of %lld examples are in the training data, too (%s is %s): what is "
            "measured on them says nothing about new ones",
            part_keys[part], (long long)n, (long long)d[part]->count, own, other);
}

/* Marks those of h[n], sorted by hash, that have the hash of training example i. */
static void note_trained(hashed *h, int64_t n, uint64_t hash, int64_t i)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (h[middle].hash < hash) low = middle + 1;
        else high = middle;
    }
    for (; low < n && h[low].hash == hash && h[low].trained < 0; low++) h[low].trained = i;
}

/* Finds examples of a part that are also training examples. */
static dt_status find_same(const dt_dataset *const d[3], int part)
{
    const dt_dataset *own = d[part];
    if (own == NULL || own->count == 0) return DT_OK;
    hashed *h = dt__alloc_array(own->ctx, own->count, sizeof *h), *first = NULL;
    int64_t found = 0;
    if (h == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < own->count; i++) h[i] = (hashed){ hash_of(own, i), i, -1 };
    qsort(h, (size_t)own->count, sizeof *h, by_hash);
    for (int64_t i = 0; i < d[0]->count; i++) note_trained(h, own->count, hash_of(d[0], i), i);
    for (int64_t i = 0; i < own->count; i++) {
        if (h[i].trained < 0) continue;
        if (found++ == 0 || h[i].example < first->example) first = &h[i];
    }
    say_same(d, part, found, first);
    dt__release(own->ctx, h);
    return DT_OK;
}

static void say_input(const dt_dataset *d, int64_t column, const char *what)
{
    const dt__array_store *s = d->arrays;
    char shown[DT__SHOWN], number[32];
    snprintf(number, sizeof number, "%lld", (long long)column);
    const char *name = column < s->n_columns ? s->column_name[column] : number;
    dt__say(
        d->ctx,
        "warning: data.train: the input '%s' alone determines %s in all %lld rows: if it is not "
        "known when the model is asked, %s",
        dt__shown(name, shown), what, (long long)d->count,
        s->n_columns > 0 ? "data.columns.exclude leaves it out" : "leave it out");
}

typedef struct class_value {
    float value;
    bool seen;
} class_value;

static int by_value(const void *a, const void *b)
{
    const class_value *x = a, *y = b;
    if (x->seen != y->seen) return x->seen ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static bool all_differ(class_value *of, int64_t classes)
{
    int64_t seen = 0;
    qsort(of, (size_t)classes, sizeof *of, by_value);
    while (seen < classes && of[seen].seen) seen++;
    for (int64_t c = 1; c < seen; c++) {
        if (of[c].value == of[c - 1].value) return false;
    }
    return seen > 1;
}

/* `row`: memory for a row. */
static dt_status find_of_classes(const dt_dataset *d, float *row)
{
    const int64_t columns = d->arrays->dims[0], classes = d->classes;
    class_value *of =
        dt__alloc_zero(d->ctx, (uint64_t)(columns * classes) * sizeof *of + (uint64_t)columns);
    if (of == NULL) return DT_ERR_NOMEM;
    uint8_t *is_out = (uint8_t *)(of + columns * classes);
    for (int64_t i = 0; i < d->count; i++) {
        dt__array_example(d->arrays, d->first + i, row);
        class_value *own = of + d->kind->label(d, i);
        for (int64_t c = 0; c < columns; c++, own += classes) {
            is_out[c] |= own->seen && own->value != row[c];
            *own = (class_value){ row[c], true };
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        if (!is_out[c] && all_differ(of + c * classes, classes)) say_input(d, c, "the class");
    }
    dt__release(d->ctx, of);
    return DT_OK;
}

typedef struct sums {
    double x, xx, y, yy, xy;
} sums;

static dt_status find_of_values(const dt_dataset *d, float *row)
{
    const int64_t columns = d->arrays->dims[0], outputs = d->arrays->outputs;
    sums *all = dt__alloc_zero(d->ctx, (uint64_t)(columns * outputs) * sizeof *all);
    float *first = dt__alloc_array(d->ctx, columns, sizeof *first);
    const bool good = all != NULL && first != NULL;
    if (good) dt__array_example(d->arrays, d->first, first);
    const float *y0 = dt__array_target(d, 0);
    for (int64_t i = 0; good && i < d->count; i++) {
        const float *target = dt__array_target(d, i);
        dt__array_example(d->arrays, d->first + i, row);
        for (int64_t k = 0; k < columns * outputs; k++) {
            const int64_t c = k / outputs, o = k % outputs;
            const double x = (double)row[c] - (double)first[c];
            const double y = (double)target[o] - (double)y0[o];
            sums *s = &all[k];
            *s = (sums){ s->x + x, s->xx + x * x, s->y + y, s->yy + y * y, s->xy + x * y };
        }
    }
    for (int64_t k = 0; good && k < columns * outputs; k++) {
        const double n = (double)d->count;
        const double both = n * all[k].xy - all[k].x * all[k].y;
        const double spread =
            (n * all[k].xx - all[k].x * all[k].x) * (n * all[k].yy - all[k].y * all[k].y);
        if (spread > 0 && both * both > SAME * spread) say_input(d, k / outputs, "a target");
    }
    DT__RELEASE(d->ctx, all, first);
    return good ? DT_OK : DT_ERR_NOMEM;
}

static dt_status find_inputs(const dt_dataset *d)
{
    const bool labels = d->target == DT_TARGET_CLASS;
    const bool values = d->target == DT_TARGET_VALUES || d->target == DT_TARGET_BITS;
    const int64_t each = labels ? d->classes : d->arrays->outputs, columns = d->arrays->dims[0];
    if (d->arrays->rank != 1 || !(labels || values) || each < 1) return DT_OK;
    if (columns > MOST_PAIRS / each) return DT_OK;
    float *row = dt__alloc_array(d->ctx, columns, sizeof *row);
    if (row == NULL) return DT_ERR_NOMEM;
    const dt_status status = (labels ? find_of_classes : find_of_values)(d, row);
    dt__release(d->ctx, row);
    return status;
}

dt_status dt__say_leaks(const dt_dataset *const d[3])
{
    int64_t examples = 0;
    for (int p = 0; p < 3; p++) {
        if (d[p] != NULL && d[p]->kind != &dt__data_arrays) return DT_OK;
        examples += d[p] == NULL ? 0 : d[p]->count;
    }
    if (d[0]->count < FEWEST) return DT_OK;
    const int64_t size = 8 * dt__max_i64(1, dt__array_size(d[0]->arrays));
    if (size > MOST_BYTES || examples > MOST_BYTES / size) return DT_OK;
    for (int part = 1; part < 3; part++) DT__TRY(find_same(d, part));
    return find_inputs(d[0]);
}
