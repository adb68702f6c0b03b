/* A shared object without a plugin. */
extern const int nothing;
const int nothing = 1;
