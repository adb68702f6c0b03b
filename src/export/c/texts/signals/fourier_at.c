/* Number i of an array of complex ones. */
static fourier_number fourier_at(const float *z, int32_t i)
{
    fourier_number v;
    v.r = z[2 * i];
    v.i = z[2 * i + 1];
    return v;
}
