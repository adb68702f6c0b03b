/* Code number `at` of 4 bits. */
static int32_t code_i4(const int8_t *codes, int32_t at)
{
    const int32_t byte = codes[at >> 1];
    return at & 1 ? byte >> 4 : ((byte & 15) ^ 8) - 8;
}
