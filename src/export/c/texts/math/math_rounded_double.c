/* The same of a double. */
static double rounded_double(double v)
{
#if defined(__GNUC__) && (defined(__SSE2__) || defined(__x86_64__))
    __asm__("" : "+x"(v));
    return v;
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__("" : "+w"(v));
    return v;
#else
    volatile double kept = v;
    return kept;
#endif
}
