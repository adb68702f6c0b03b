static int8_t clamped(int32_t v, int32_t least, int32_t most)
{
    return (int8_t)(v < least ? least : v > most ? most : v);
}
