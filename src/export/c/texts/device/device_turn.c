/* An image [pixels][channels] as [channels][pixels]. */
static void device_turn(const int8_t *x, int32_t pixels, int32_t channels, int8_t *y)
{
    int32_t c, k;
    for (c = 0; c < channels; c++) {
        for (k = 0; k < pixels; k++) *y++ = x[k * channels + c];
    }
}
