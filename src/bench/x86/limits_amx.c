/* The limit of AMX-INT8: 16 x 16 sums of 64 products of bytes by tdpbusd, four independent ones. */
#if defined DETENT_SIMD && defined __x86_64__ && !defined DETENT_EMULATE
#include "bench/limits.h"
#include "kernels/x86/amx.h"

uint64_t dt__limits_tiles(int64_t rounds)
{
    dt__tiles t;
    _Alignas(64) dt__tile_shapes shapes = { .palette = 1 };
    _Alignas(64) uint8_t bytes[DT__TILE_ROWS][DT__TILE_BYTES];
    int32_t sum[DT__TILE_ROWS][DT__TILE_BYTES / 4];
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = DT__TILE_BYTES;
        shapes.rows[i] = DT__TILE_ROWS;
    }
    memset(bytes, 3, sizeof bytes);
    dt__tiles_configure(&t, &shapes);
    DT__TILE_LOAD(&t, 4, bytes, DT__TILE_BYTES);
    DT__TILE_LOAD(&t, 6, bytes, DT__TILE_BYTES);
    for (int64_t r = 0; r < rounds; r++) {
        DT__TILE_MULTIPLY_US(&t, 0, 4, 6);
        DT__TILE_MULTIPLY_US(&t, 1, 4, 6);
        DT__TILE_MULTIPLY_US(&t, 2, 4, 6);
        DT__TILE_MULTIPLY_US(&t, 3, 4, 6);
    }
    DT__TILE_STORE(&t, 0, sum, sizeof sum[0]);
    dt__tiles_release(&t);
    return (uint64_t)sum[0][0];
}
#endif
