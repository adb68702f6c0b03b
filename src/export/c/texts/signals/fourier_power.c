/* The square of the magnitude. */
static float fourier_power(float real, float imaginary)
{
    return rounded(real * real) + rounded(imaginary * imaginary);
}
