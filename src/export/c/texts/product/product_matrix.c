/* A weight: `rows` outputs of `columns` codes each, in groups of `group` columns (the last of a row
 * may be shorter) that share a scale. Rows begin at whole bytes. */
typedef struct weight_matrix {
    const uint8_t *codes; /* of 2 or 4 bits plus 2 or 8, the first code lowest; of 8 bits: signed */
    const float *scales;  /* [rows][groups] */
    const float *sums;    /* [rows]: scale * (sum of codes), over the groups; of integer products */
    const float *bias;    /* [rows]; or 0 */
    int32_t rows, columns, group;
} weight_matrix;
