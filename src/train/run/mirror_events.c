/* Event files of TensorBoard: records of
 *     length (u64), masked crc of it (u32), data, masked crc of the data (u32)
 * in little-endian order, data being an Event in protobuf. Masked is ((crc >> 15 | crc << 17) +
 * 0xa282ead8) of the CRC-32C. The first record has the file's version.
 * [TensorFlow, tensorflow/core/lib/io/record_writer.h] */
#include "train/run/mirror.h"

#include "train/events.pb-c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VERSION "brain.Event:2"
#define TAG 256

uint32_t dt__crc32c(const void *data, size_t bytes)
{
    uint32_t crc = 0xffffffff;
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void put_little(dt__chars *t, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) dt__put(t, &(const char){ (char)(value >> (8 * i)) }, 1);
}

static void put_masked(dt__chars *t, const void *data, size_t bytes)
{
    const uint32_t crc = dt__crc32c(data, bytes);
    put_little(t, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8), 4);
}

static void put_record(dt__chars *t, const DtEvents__Event *event)
{
    const size_t n = dt_events__event__get_packed_size(event);
    uint8_t *data = dt__alloc(t->ctx, n);
    const size_t head = t->used;
    if (data == NULL) t->failed = true;
    if (data == NULL) return;
    dt_events__event__pack(event, data);
    put_little(t, n, 8);
    if (!t->failed) put_masked(t, t->bytes + head, 8);
    dt__put(t, (const char *)data, n);
    put_masked(t, data, n);
    dt__release(t->ctx, data);
}

void dt__put_events_head(dt__chars *t, double time)
{
    DtEvents__Event event = DT_EVENTS__EVENT__INIT;
    char version[] = VERSION;
    event.wall_time = time;
    event.file_version = version;
    put_record(t, &event);
}

/* Writes one event per number; readers combine those of one step. */
static void put_number(dt__chars *t, DtEvents__Event *event, char *tag, double value)
{
    DtEvents__Value one = DT_EVENTS__VALUE__INIT, *list[] = { &one };
    DtEvents__Summary summary = DT_EVENTS__SUMMARY__INIT;
    if (!isfinite(value)) return;
    one.tag = tag;
    one.value_case = DT_EVENTS__VALUE__VALUE_SIMPLE_VALUE;
    one.simple_value = (float)value;
    summary.n_value = 1;
    summary.value = list;
    event->summary = &summary;
    put_record(t, event);
    event->summary = NULL;
}

static void put_layer(dt__chars *t, DtEvents__Event *event, const dt__branch *layer)
{
    char tag[TAG];
    for (const dt__branch *side = dt__children(layer); side != NULL; side = side->next) {
        if (side->type != DT__BRANCH_MAP) continue;
        for (const dt__branch *v = side->first; v != NULL; v = v->next) {
            snprintf(tag, sizeof tag, "layers/%.128s/%.32s/%.32s", dt__field_text(layer, "path"),
                     side->name, v->name);
            if (v->type == DT__BRANCH_NUMBER) put_number(t, event, tag, v->number);
        }
    }
}

void dt__put_events(dt__chars *t, const dt__branch *line, double time)
{
    char tag[TAG];
    DtEvents__Event event = DT_EVENTS__EVENT__INIT;
    const double step = dt__field_number(line, "step");
    event.wall_time = time;
    event.step = step >= 0 && step < 9e15 ? (int64_t)step : 0;
    const bool baseline = strcmp(dt__field_text(line, "phase"), "baseline") == 0;
    for (const dt__branch *v = dt__children(line); v != NULL; v = v->next) {
        snprintf(tag, sizeof tag, "%s%.128s", baseline ? "baseline/" : "", v->name);
        if (v->type == DT__BRANCH_NUMBER && strcmp(v->name, "step") != 0) {
            put_number(t, &event, tag, v->number);
        }
    }
    const dt__branch *layer = dt__children(dt__field(line, "layers"));
    for (; layer != NULL; layer = layer->next) put_layer(t, &event, layer);
}
