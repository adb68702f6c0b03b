/* The scale of a block whose largest magnitude is a. */
static float small_scale(const small_format *f, float a)
{
    float scale;
    int32_t exponent;
    if (f->global > 0) {
        const float e = small_rounded(rounded(f->global * rounded(a / 6.0f)), 3, 7, 448.0f);
        return rounded((e > 0 ? e : 0.125f) / f->global) / 2.0f;
    }
    exponent = (int32_t)((bits_of(rounded(a / f->divisor)) + f->carry) >> 23) - f->drop;
    scale = exponent > 0 ? float_of((uint32_t)exponent << 23) : 0;
    return scale < f->least ? f->least : scale > f->most_scale ? f->most_scale : scale;
}
