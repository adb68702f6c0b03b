/* Windows over planes of in_h x in_w; of lines: in_h and out_h are 1. */
typedef struct pool_shape {
    int32_t planes, in_h, in_w, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w;
    int32_t padding_h, padding_w, dilation_h, dilation_w;
} pool_shape;
