/* Code k of row r of a weight of `bits` (2, 4 or 8) bits. */
static int32_t code_at(const weight_matrix *w, int32_t bits, int32_t r, int32_t k)
{
    if (bits == 8) return ((const int8_t *)w->codes)[r * w->columns + k];
    if (bits == 4) {
        const int32_t pair = w->codes[r * ((w->columns + 1) / 2) + k / 2];
        return (pair >> k % 2 * 4 & 15) - 8;
    }
    return (w->codes[r * ((w->columns + 3) / 4) + k / 4] >> k % 4 * 2 & 3) * w->step + w->least;
}
