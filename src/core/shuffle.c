/* Shuffles long arrays. The draws are those of dt__random_below, but Philox blocks are computed in
 * runs, so that many of the random places to swap with are known in advance and their cache misses
 * overlap. */
#include "core/shuffle.h"

void dt__shuffle(dt__stream *s, int64_t n, int64_t *v)
{
    uint32_t word[4][DT__PHILOX_RUN];
    int64_t place[DT__PHILOX_RUN];
    for (int64_t last = n - 1, drawn; last > 0; last -= drawn) {
        drawn = 0;
        dt__philox_run(s->key, s->next, word);
        for (int k = 0; k < DT__PHILOX_RUN && drawn < last; k++, s->next++) {
            const uint64_t w = (uint64_t)word[0][k] << 32 | word[1][k];
            const uint64_t left = (uint64_t)(last - drawn) + 1;
            if (dt__is_fair(w, left)) place[drawn++] = (int64_t)(w % left);
        }
        for (int64_t k = 0; k < drawn; k++) {
            const int64_t kept = v[last - k];
            v[last - k] = v[place[k]];
            v[place[k]] = kept;
        }
    }
}

void dt__shuffle_runs(dt__stream *s, int64_t n, int64_t run, int64_t window, int64_t *runs,
                      int64_t *v)
{
    if (window >= n) {
        for (int64_t i = 0; i < n; i++) v[i] = i;
        dt__shuffle(s, n, v);
        return;
    }
    const int64_t count = dt__ceil_div(n, run);
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) runs[i] = i;
    dt__shuffle(s, count, runs);
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = runs[i] * run, past = dt__min_i64(n, first + run);
        for (int64_t k = first; k < past; k++) v[at++] = k;
    }
    for (at = 0; at < n; at += window) dt__shuffle(s, dt__min_i64(window, n - at), v + at);
}
