/* Row r of a table of codes of `bits` bits as the numbers that they stand for:
 *     y = (code - zero) * scale
 * `zeros` has a zero point for each scale; or is 0. Columns may be kept in another order: place i
 * of a row holds column order[i], and column i is at places[i]; one of them, or both, are 0. */
static void embedding_codes(const weight_matrix *w, int32_t bits, const int8_t *zeros,
                            const uint16_t *order, const uint16_t *places, int32_t r, float *y)
{
    const int32_t groups = (w->columns + w->group - 1) / w->group;
    int32_t i;
    for (i = 0; i < w->columns; i++) {
        const int32_t place = places ? places[i] : i, at = r * groups + place / w->group;
        const int32_t q = code_at(w, bits, r, place) - (zeros ? zeros[at] : 0);
        y[order ? order[i] : i] = rounded((float)q * w->scales[at]);
    }
}
