/* Where the program begins. All else of it is a library, so that tests can run commands in their
 * own process. */
#include "cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
