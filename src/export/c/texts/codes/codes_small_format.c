/* Values of a small float times a scale of their block: bits of its mantissa, the bias of its
 * exponent, and its largest value; codes are values times `unit`. A block's scale follows from
 * its largest magnitude: as 2^E by `divisor`, `carry` and `drop`, cut to least ... most_scale,
 * or with a `global` scale as a float of 4 and 3 bits. */
typedef struct small_format {
    int32_t mantissa, bias;
    float most, unit, divisor;
    uint32_t carry;
    int32_t drop;
    float least, most_scale, global;
} small_format;
