/* Names of the forms of chats, as recipes and model files write them. */
#include "data/data_options.h"

const char *const dt__chat_names[] = { "auto", "chatml", "llama3", "plain", NULL };
