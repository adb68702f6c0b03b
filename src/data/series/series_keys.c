/* `data.series`: its keys, which the files of models have, too. */
#include "data/data_options.h"

#define AT(field) .offset = offsetof(dt_series_options, field)

static const char *const series_labels[] = {
    [DT_SERIES_LAST] = "last", [DT_SERIES_MAJORITY] = "majority", [DT_SERIES_PURE] = "pure", NULL
};

static const char *const series_methods[] = { [DT_SERIES_LINEAR] = "linear",
                                              [DT_SERIES_NEAREST] = "nearest",
                                              [DT_SERIES_BEFORE] = "last",
                                              NULL };

const dt_key dt__series_keys[] = {
    { "by", DT_KEY_STRINGS, AT(by),
      .text = "columns whose values tell series apart, such as [subject, session]; they are no "
              "inputs unless data.columns.inputs names them; absent: a file is a series" },
    { "time", DT_KEY_STRING, AT(time),
      .text = "column that orders the rows of a series, numbers or times, likewise no input; "
              "absent: the order of the file" },
    { "format", DT_KEY_STRING, AT(format),
      .text = "form of these times, as \"%d.%m.%Y %H:%M:%S\"; absent: numbers, or ISO 8601" },
    { "gap", DT_KEY_REAL, AT(gap), .most = 1e9, .fallback = "0",
      .text = "seconds (of numbers: their unit) from a row to the next beyond which a new window "
              "begins; 0: three times the median step" },
    { "label", DT_KEY_CHOICE, AT(label), .choices = series_labels, .fallback = "last",
      .text = "label of a window: last: of its last row; majority: the most frequent one, of "
              "several the later; pure: windows of one label alone are examples" },
    { "rate", DT_KEY_REAL, AT(rate), .most = 1e9, .fallback = "0",
      .text = "rows a second (of numbers: a unit) that the rows of a series become, from its first "
              "one on; a field may be empty then; 0: rows stay as they are" },
    { "method", DT_KEY_CHOICE, AT(method), .choices = series_methods, .fallback = "linear",
      .text = "of rate: what a column has between two rows: linear (of words: last), nearest, or "
              "last; beyond data.series.gap nothing" },
    { 0 },
};
