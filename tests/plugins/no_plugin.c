/* A shared object that is not a plugin. */
extern const int nothing;
const int nothing = 1;
