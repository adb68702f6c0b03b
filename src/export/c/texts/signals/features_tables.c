/* The constants of features. */
typedef struct features_tables {
    int32_t frame, size, bins, width;
    float floor;
    const float *window, *turns, *joins; /* [frame], and of the transform */
    const uint16_t *filters;             /* [bins][2]: the first power, and how many */
    const float *weights;                /* of one filter after the other */
    const float *cosines;                /* 0: none */
} features_tables;
