/* The row of a table that a number names: the nearest one, if there is no such row. */
static int32_t embedding_row(float x, int32_t rows)
{
    if (!(x > 0)) return 0;
    return x < (float)rows ? (int32_t)x : rows - 1;
}
