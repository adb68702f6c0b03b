/* mixup and cutmix: a batch of images is mixed with itself in reverse order. Each batch uses 64
 * blocks of an epoch's key, with bit 61 set: the last one chooses mixup or cutmix; each of the
 * others draws a share and places a rectangle, until one is accepted. A share is drawn from
 * Beta(alpha, alpha) [Johnk 1964]:
 *     a = u^(1/alpha), b = v^(1/alpha) until a + b <= 1; then a / (a + b)
 * which at the worst (alpha 2) fails in 5 of 6 attempts, and in all of them in one batch of 10^5;
 * the share is then 1/2. */
#include "data/dataset.h"

#include <math.h>

#define MIXING_BLOCK ((uint64_t)1 << 61)
#define BLOCKS 64
#define MOST_ALPHA 2

dt_status dt__images_check_mixture(const dt_dataset *d, const dt_augment_options *a)
{
    if (!(a->mixup >= 0 && a->mixup <= MOST_ALPHA && a->cutmix >= 0 && a->cutmix <= MOST_ALPHA)) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: augment.mixup %g and cutmix %g: expected 0 to %d", a->mixup,
                       a->cutmix, MOST_ALPHA);
    }
    if (!dt__images_are_mixed(a) || d->target == DT_TARGET_CLASS) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG,
                   "loader: augment.mixup and cutmix are for images whose targets are classes");
}

/* `word` receives the accepted block. */
static double draw_share(double alpha, uint64_t key, uint64_t block, uint32_t word[4])
{
    for (int i = 0; i < BLOCKS - 1; i++) {
        dt__philox(key, block + (uint64_t)i, word);
        const double a = pow((double)dt__unit_f32(word[0]), 1 / alpha);
        const double b = pow((double)dt__unit_f32(word[1]), 1 / alpha);
        if (a + b <= 1 && a + b > 0) return a / (a + b);
    }
    return 0.5;
}

dt__mixture dt__mixture_of(const dt_dataset *d, const dt_augment_options *a, uint64_t key,
                           int64_t batch)
{
    uint32_t word[4];
    const uint64_t block = MIXING_BLOCK | (uint64_t)batch * BLOCKS;
    dt__philox(key, block + BLOCKS - 1, word);
    const bool cuts = a->mixup == 0 || (a->cutmix != 0 && word[0] >> 31);
    const double share = draw_share(cuts ? a->cutmix : a->mixup, key, block, word);
    dt__mixture m = { .share = (float)share };
    if (!cuts) return m;
    m.height = (int64_t)((double)d->height * sqrt(1 - share));
    m.width = (int64_t)((double)d->width * sqrt(1 - share));
    m.top = dt__below(word[2], d->height - m.height + 1);
    m.left = dt__below(word[3], d->width - m.width + 1);
    m.share = 1 - (float)(m.height * m.width) / (float)(d->height * d->width);
    return m;
}

static void blend(float share, int64_t n, float *x, float *y)
{
    for (int64_t k = 0; k < n; k++) {
        const float a = x[k], b = y[k];
        x[k] = share * a + (1 - share) * b;
        y[k] = share * b + (1 - share) * a;
    }
}

static void exchange(const dt_dataset *d, const dt__mixture *m, float *x, float *y)
{
    for (int64_t c = 0; c < d->channels; c++) {
        for (int64_t r = 0; r < m->height; r++) {
            const int64_t at = (c * d->height + m->top + r) * d->width + m->left;
            for (int64_t k = at; k < at + m->width; k++) {
                const float kept = x[k];
                x[k] = y[k];
                y[k] = kept;
            }
        }
    }
}

void dt__images_mix(const dt__batch *b, const dt__mixture *m, int32_t *other)
{
    const bool cuts = b->options->augment.mixup == 0 || m->height > 0;
    const int64_t size = dt__dataset_image_bytes(b->d);
    const int32_t *label = b->target;
    float *x = b->x;
    for (int64_t i = 0; i < b->n; i++) other[i] = label[b->n - 1 - i];
    for (int64_t i = 0; i < b->n / 2; i++) {
        float *mine = x + i * size, *its = x + (b->n - 1 - i) * size;
        if (cuts) exchange(b->d, m, mine, its);
        else blend(m->share, size, mine, its);
    }
}
