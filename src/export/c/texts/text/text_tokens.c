/* Tokens as bytes: token i is bytes[start[i]] ... bytes[start[i + 1] - 1]. `sorted` are tokens in
 * the order of their bytes, without those that text is never split into. */
typedef struct text_tokens {
    const uint8_t *bytes;
    const uint32_t *start;
    const int32_t *sorted;
    int32_t n_sorted;
} text_tokens;
