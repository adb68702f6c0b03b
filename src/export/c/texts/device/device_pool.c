/* Windows over an image [in_h][in_w][channels]. */
typedef struct device_pool {
    int32_t in_h, in_w, channels, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, least, most;
} device_pool;
