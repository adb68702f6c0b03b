/* Writes number i of an array of complex ones. */
static void fourier_set(float *z, int32_t i, float real, float imaginary)
{
    z[2 * i] = real;
    z[2 * i + 1] = imaginary;
}
