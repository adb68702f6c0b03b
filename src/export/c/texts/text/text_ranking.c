/* Tokens in the order of their logits x, the lower token first of equal ones: id[0 ... left-1] is a
 * heap whose root is the likeliest of them; behind it are those already ranked, the likeliest
 * last. */
typedef struct text_ranking {
    const float *x;
    int32_t n, left;
    int32_t *id; /* 0: not ranked, since all are kept */
    double most, temperature;
} text_ranking;
