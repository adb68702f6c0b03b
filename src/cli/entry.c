/* main. The rest of the program is the library detent_cli, so that tests can run commands in their
 * own process. */
#include "cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
