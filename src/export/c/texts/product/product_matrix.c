/* A weight: `rows` outputs of `columns` codes each, in groups of `group` columns (the last of a row
 * may be shorter) that share a scale. Rows begin at whole bytes. */
typedef struct weight_matrix {
    /* of 8 bits signed; of 4 bits plus 8, the lower ones first; of 2 bits, the lowest first, kept
     * as (code - least) / step */
    const uint8_t *codes;
    const float *scales; /* [rows][groups] */
    const float *sums;   /* [rows]: scale * (sum of codes), over the groups; of integer products */
    const float *bias;   /* [rows]; or 0 */
    int32_t rows, columns, group, step, least;
} weight_matrix;
