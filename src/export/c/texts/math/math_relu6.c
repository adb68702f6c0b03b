/* min(max(v, 0), 6) */
static float relu6_of(float v) { return v <= 0 ? 0 : v > 6 ? 6 : v; }
