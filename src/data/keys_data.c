/* The keys of `data` in a recipe. */
#include "core/core.h"

#include <detent/data.h>

static const char *const format_names[] = { "idx", "digits", NULL };

static const dt_key augment_keys[] = {
    { "shift", DT_KEY_INT, .offset = offsetof(dt_augment_options, shift), .most = 64,
      .fallback = "0", .text = "pixels by which a training image moves at most, each way" },
    { 0 },
};

#define AT(field) .offset = offsetof(dt_data_options, field)

const dt_key dt_data_keys[] = {
    { "format", DT_KEY_CHOICE, AT(format), .choices = format_names, .fallback = "idx",
      .text = "idx: files of MNIST and its kin, plain or gzip; digits: drawn by detent" },
    { "dir", DT_KEY_PATH, AT(dir), .text = "idx: folder of the files below" },
    { "train", DT_KEY_STRINGS, AT(train), .text = "idx: two files, training images and labels" },
    { "test", DT_KEY_STRINGS, AT(test), .text = "idx: two files, test images and labels" },
    { "validation", DT_KEY_REAL, AT(validation), .most = 0.99, .fallback = "0",
      .text = "share of the training images, at their end, that validate instead" },
    { "train_count", DT_KEY_INT, AT(train_count), .most = 1 << 30, .fallback = "0",
      .text = "digits: images to draw; idx: use the first so many, 0: all" },
    { "test_count", DT_KEY_INT, AT(test_count), .most = 1 << 30, .fallback = "0",
      .text = "digits: test images to draw; idx: use the first so many, 0: all" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "digits: what is drawn" },
    { "mean", DT_KEY_REAL, AT(mean), .least = -1000, .most = 1000, .fallback = "0",
      .text = "a pixel p becomes (p/255 - mean) / deviation" },
    { "deviation", DT_KEY_REAL, AT(deviation), .least = 1e-6, .most = 1000, .fallback = "1",
      .text = "see mean" },
    { "augment", DT_KEY_MAP, AT(augment), .keys = augment_keys,
      .text = "random changes to training images" },
    { 0 },
};
