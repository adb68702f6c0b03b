/* machine.json: the machine on which a run was made. Written when the run ends. */
#include "kernels/machine.h"
#include "train/run/run.h"

#include <time.h>
#include <unistd.h>

static void put_field(dt__chars *t, const char *name, const char *text)
{
    DT__PUT_ALL(t, ",\n \"", name, "\": ", DT__QUOTED(text));
}

static void put_number(dt__chars *t, const char *name, double value)
{
    DT__PUT_ALL(t, ",\n \"", name, "\": ", value);
}

/* The end of the run, in UTC. */
static void put_date(dt__chars *t)
{
    char text[32] = "";
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL) return;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
    put_field(t, "date", text);
}

/* Writes memory per rank; a single process is rank 0. */
static void put_memory(const dt__run *r, dt__chars *t)
{
    static const char *const names[] = { "{\"peak\": ", ", \"weights\": ", ", \"gradient\": ",
                                         ", \"optimizer\": ", ", \"activations\": " };
    if (r->ranks.memory == NULL) return;
    dt__put_text(t, ",\n \"memory\": [");
    for (int k = 0; k < dt__cluster_ranks(r->ranks.cluster); k++) {
        const dt__rank_memory *m = &r->ranks.memory[k];
        const double values[] = { m->peak, m->weights, m->gradient, m->optimizer, m->activations };
        if (k > 0) dt__put_text(t, ",\n  ");
        for (int i = 0; i < DT__COUNT_OF(names); i++) {
            DT__PUT_ALL(t, names[i], values[i]);
        }
        dt__put_text(t, "}");
    }
    dt__put_text(t, "]");
}

dt_status dt__run_write_machine(dt__run *r, double seconds)
{
    char processor[DT__PROCESSOR];
    dt__chars t = { .ctx = r->ctx };
    if (!r->o->run.report || !dt__run_writes(r)) return DT_OK;
    dt__put_text(&t, "{\"version\": ");
    dt__put_quoted(&t, dt_version());
    put_date(&t);
    put_field(&t, "processor", dt__processor(processor));
    put_field(&t, "kernels", dt_kernels_name(r->ctx));
    put_number(&t, "threads", dt_threads(r->ctx));
    put_number(&t, "seconds", seconds);
    put_number(&t, "peak_memory", (double)dt_memory_of(r->ctx).peak);
    put_number(&t, "parameters", (double)r->summary->parameters);
    put_number(&t, "trained", (double)r->summary->trained);
    put_number(&t, "samples", (double)dt_dataset_count(r->data.train));
    put_memory(r, &t);
    dt__put_text(&t, "}\n");
    const dt_status s = dt__run_write_shown(r, "machine.json", &t);
    dt__release(r->ctx, t.bytes);
    return s;
}

dt_status dt__run_forget_machine(dt__run *r)
{
    char path[DT__RUN_PATH];
    if (!dt__run_writes(r)) return DT_OK;
    DT__TRY(dt__run_path(r, "machine.json", path));
    unlink(path); /* it may not exist */
    return DT_OK;
}
