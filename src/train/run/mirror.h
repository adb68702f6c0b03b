/* Copies of metrics.jsonl in other forms: metrics.csv, and events for TensorBoard. */
#ifndef DT__TRAIN_MIRROR_H
#define DT__TRAIN_MIRROR_H

#include "core/text/json.h"
#include "report/page_tree.h"

/* Writes a row of a CSV file (RFC 4180): the fields of `line` that are named in `columns` (ended by
 * NULL); empty if absent. */
void dt__put_csv_row(dt__chars *t, const dt__branch *line, const char *const *columns);
void dt__put_csv_head(dt__chars *t, const char *const *columns);

/* Appends records of an event file: the head; the numbers of a line of metrics, with their time in
 * seconds since 1970. Tags are names of fields; for layers "layers/PATH/weight/snr". */
void dt__put_events_head(dt__chars *t, double time);
void dt__put_events(dt__chars *t, const dt__branch *line, double time);

/* CRC-32C (Castagnoli) of a text. */
uint32_t dt__crc32c(const void *data, size_t bytes);

#endif
