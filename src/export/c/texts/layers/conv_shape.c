/* A convolution of [in][in_h][in_w] to [out][out_h][out_w], both cut into `groups` of channels. */
typedef struct conv_shape {
    int32_t in, in_h, in_w, out, out_h, out_w, groups;
    int32_t kernel_h, kernel_w, stride_h, stride_w;
    int32_t padding_h, padding_w, dilation_h, dilation_w;
} conv_shape;
