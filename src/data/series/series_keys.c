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
      .text = "columns that tell series apart, such as [subject, session]; absent: a file is a "
              "series" },
    { "time", DT_KEY_STRING, AT(time),
      .text = "column that orders the rows of a series; absent: the order of the file" },
    { "format", DT_KEY_STRING, AT(format),
      .text = "form of these times, as \"%d.%m.%Y %H:%M:%S\"; absent: numbers, or ISO 8601" },
    { "gap", DT_KEY_REAL, AT(gap), .most = 1e9, .fallback = "0",
      .text = "step in seconds (of numbers: their unit) beyond which a window ends; 0: three times "
              "the median step" },
    { "label", DT_KEY_CHOICE, AT(label), .choices = series_labels, .fallback = "last",
      .text = "label of a window: that of its last row; the most frequent one; pure: windows of "
              "several labels are left out" },
    { "rate", DT_KEY_REAL, AT(rate), .most = 1e9, .fallback = "0",
      .text = "rows a second (of numbers: a unit) that a series is made into; 0: rows stay as they "
              "are" },
    { "method", DT_KEY_CHOICE, AT(method), .choices = series_methods, .fallback = "linear",
      .text = "of rate: values between two rows; words have the last one" },
    { 0 },
};
