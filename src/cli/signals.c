/* After SIGINT or SIGTERM a command saves its work and stops. */
#include "cli/cli.h"

#include <signal.h>

static volatile sig_atomic_t stopped; /* the only type that a handler may write */

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

void cli_catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = (int)SA_RESETHAND | SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_stopped(void *user)
{
    (void)user;
    return stopped != 0;
}
