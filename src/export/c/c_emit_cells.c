/* Format c: cells of recurrent layers. Their matrix products are separate linear layers; c_fold.c
 * turns repeated steps into loops. */
#include "export/c/c_emit.h"

enum { GI, GH, STATE };

static void emit_cell(dt__c_program *p, const dt_trace_call *c, const char *text, const char *name)
{
    /* gi is [1, gates * hidden], the state [1, hidden] or [2, 1, hidden] */
    dt__c_want(p, text);
    dt__c_line(p, "%s(%s, %s, %s, %lld, %s);", name, dt__c_in(p, c, GI).text,
               dt__c_in(p, c, GH).text, dt__c_in(p, c, STATE).text,
               (long long)dt__c_dim(p, c->out[0], -1), dt__c_out(p, c, 0).text);
}

static void emit_gru(dt__c_program *p, const dt_trace_call *c)
{
    emit_cell(p, c, "cell_gru", "gru_cell");
}

static void emit_lstm(dt__c_program *p, const dt_trace_call *c)
{
    emit_cell(p, c, "cell_lstm", "lstm_cell");
}

const dt__c_emitter dt__c_emit_cells[] = { { "gru_cell", NULL, NULL, emit_gru },
                                           { "lstm_cell", NULL, NULL, emit_lstm },
                                           { 0 } };
