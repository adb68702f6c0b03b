/* Names of chat formats in recipes and model files. */
#include "data/data_options.h"

const char *const dt__chat_names[] = { "auto", "chatml", "llama3", "plain", NULL };
