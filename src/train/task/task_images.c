/* Targets that are images (denoising), from 0, black, to 1, white:
 *     loss = mse = mean over all values of (y - target)^2
 *     psnr_mean_of_images = mean over images of 10 log10(1 / mse of the image)
 *     psnr_of_mean_error  = 10 log10(1 / mse), never above the other */
#include "train/task/task.h"

#include <detent/ops.h>
#include <math.h>

enum { ERROR, DECIBELS };

static dt_tensor *loss(const dt__pass *p)
{
    return dt_mse(p->t, dt__answer(p), p->target, DT_REDUCE_SUM);
}

static double decibels(double error) { return -10 * log10(error); }

static void count(dt__tally *s, const float *y, const void *target)
{
    const float *wanted = target;
    double sum = 0;
    for (int64_t i = 0; i < s->places; i++) {
        const double difference = (double)y[i] - (double)wanted[i];
        sum += difference * difference;
    }
    s->sum[ERROR] += sum;
    s->sum[DECIBELS] += decibels(sum / (double)s->places);
}

static double mse(const dt__tally *s)
{
    return s->sum[ERROR] / ((double)s->examples * (double)s->places);
}

static double mean_of_images(const dt__tally *s) { return s->sum[DECIBELS] / (double)s->examples; }

static double of_mean_error(const dt__tally *s) { return decibels(mse(s)); }

#define DECIBEL .unit = "dB", .scale = 1, .decimals = 2, .larger_is_better = true

const dt__task dt__task_images = {
    .measure = { { { "psnr_mean_of_images", "psnr", DECIBEL }, mean_of_images, 0 },
                 { { "psnr_of_mean_error", "psnr of mse", DECIBEL }, of_mean_error, 0 },
                 { { "mse", "mse", .scale = 1, .decimals = 6 }, mse, 0 } },
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};
