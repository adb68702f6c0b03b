/* A scale that is not so small that 1 / scale is useless. */
static float scale_f32(float scale) { return scale < 0x1p-23f ? 0x1p-23f : scale; }
