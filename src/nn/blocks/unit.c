/* Running a unit as a chain of modules. */
#include "nn/blocks/unit.h"

dt_tensor *dt__unit_forward(dt_tape *t, const dt__unit *u, dt_tensor *x)
{
    dt_link link[3] = { { .m = u->layer } };
    int64_t n = 1;
    if (u->norm != NULL) link[n++].m = u->norm;
    link[n - 1].residual = u->residual;
    if (u->activation != NULL) link[n++].m = u->activation;
    return dt_forward_chain(t, link, n, x);
}
