/* a b, each product rounded. */
static fourier_number fourier_product(fourier_number a, fourier_number b)
{
    fourier_number v;
    v.r = rounded(a.r * b.r) - rounded(a.i * b.i);
    v.i = rounded(a.r * b.i) + rounded(a.i * b.r);
    return v;
}
