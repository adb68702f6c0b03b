/* A block's scale as it is. */
static float stored_f32(float scale) { return scale; }
