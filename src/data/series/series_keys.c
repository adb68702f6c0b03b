/* Keys of `data.series`, which model files have, too. */
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
      .text = "columns whose values make a series, such as [subject, session]; absent: a file is "
              "a series" },
    { "time", DT_KEY_STRING, AT(time),
      .text = "column that orders the rows; absent: the file's order" },
    { "format", DT_KEY_STRING, AT(format),
      .text = "form of these times, as \"%d.%m.%Y %H:%M:%S\"; absent: numbers, or ISO 8601" },
    { "gap", DT_KEY_REAL, AT(gap), .most = 1e9, .fallback = "0",
      .text = "longest step inside a window, in seconds (of numbers: units); 0: three times the "
              "median" },
    { "label", DT_KEY_CHOICE, AT(label), .choices = series_labels, .fallback = "last",
      .text = "label of a window: of its last row; the most frequent; pure: windows of several "
              "are left out" },
    { "rate", DT_KEY_REAL, AT(rate), .most = 1e9, .fallback = "0",
      .text = "rows a second (of numbers: a unit) to make; 0: rows stay" },
    { "method", DT_KEY_CHOICE, AT(method), .choices = series_methods, .fallback = "linear",
      .text = "of rate: values between two rows; words have the last one" },
    { 0 },
};
