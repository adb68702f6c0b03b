/* Features of a frame of samples:
 *     powers of the Fourier transform of window * samples, filled up with zeros to `size` numbers;
 *     L[b] = log(max(floor, sum of weights * powers)), for each filter b;
 *     with cosines [width, bins] the sums of cosines * L, else L itself
 * Samples are `apart` numbers apart; z has size + bins numbers. */
static void features_frame(const features_tables *t, const float *samples, int32_t apart, float *z,
                           float *y)
{
    const int32_t half = t->size / 2;
    const float *weight = t->weights, *cosine = t->cosines;
    float *logs = cosine ? z + t->size : y;
    int32_t i, b;
    for (i = 0; i < t->size; i++) {
        z[2 * fourier_place(half, i / 2) + i % 2] =
            i < t->frame ? t->window[i] * samples[i * apart] : 0.0f;
    }
    fourier_transform(z, half, t->turns);
    fourier_powers(z, half, t->joins);
    for (b = 0; b < t->bins; b++) {
        const int32_t first = t->filters[2 * b], past = first + t->filters[2 * b + 1];
        float sum = 0;
        for (i = first; i < past; i++) sum += rounded(*weight++ * (i < half ? z[2 * i] : z[1]));
        logs[b] = (float)math_log((double)(sum > t->floor ? sum : t->floor));
    }
    for (i = 0; cosine && i < t->width; i++) {
        float sum = 0;
        for (b = 0; b < t->bins; b++) sum += rounded(*cosine++ * logs[b]);
        y[i] = sum;
    }
}
