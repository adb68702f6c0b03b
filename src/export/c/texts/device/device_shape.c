/* A convolution of an image [in_h][in_w][in_c] to [out_h][out_w][out_c]; what lies outside of the
 * image is the code `zero`. */
typedef struct device_shape {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c, groups;
    int32_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
    int32_t zero;
} device_shape;
