/* v, rounded to float before anything is added to it. Compilers turn a * b + c into a fused
 * multiply-add, which has other bits, wherever the processor has one; they cannot look through
 * this. */
static float rounded(float v)
{
#if defined(__GNUC__) && (defined(__SSE2__) || defined(__x86_64__))
    __asm__("" : "+x"(v));
    return v;
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__("" : "+w"(v));
    return v;
#elif defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && defined(__ARM_PCS_VFP)
    __asm__("" : "+t"(v));
    return v;
#elif defined(__GNUC__) && defined(__riscv_flen)
    __asm__("" : "+f"(v));
    return v;
#else
    volatile float kept = v;
    return kept;
#endif
}
