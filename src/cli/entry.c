/* Where the program begins. The rest of it is the library detent_cli, so that tests can run
 * commands in their own process. */
#include "cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
