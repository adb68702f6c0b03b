/* Choices of a key as sets of bits, and sets of data formats. */
#ifndef TRAIN_CHOICES_H
#define TRAIN_CHOICES_H

#include <detent/experimental/data.h>

#define DT__BIT(choice) (1U << (choice))
#define DT__FOLDERS (DT__BIT(DT_DATA_PNG) | DT__BIT(DT_DATA_FOLDER))
#define DT__IMAGE_FILES                                                                            \
    (DT__BIT(DT_DATA_IDX) | DT__BIT(DT_DATA_CIFAR10) | DT__BIT(DT_DATA_CIFAR100) | DT__FOLDERS)
#define DT__TEXTS (DT__BIT(DT_DATA_TEXT) | DT__BIT(DT_DATA_TOKENS) | DT__BIT(DT_DATA_JSONL))
#define DT__GIVEN DT__BIT(DT_DATA_GIVEN)
#define DT__TENSORS DT__BIT(DT_DATA_TENSORS)
#define DT__FILES (DT__IMAGE_FILES | DT__TEXTS | DT__TENSORS)
#define DT__DRAWN_ARRAYS                                                                           \
    (DT__BIT(DT_DATA_SOUNDS) | DT__BIT(DT_DATA_SENSORS) | DT__BIT(DT_DATA_TABLE))
#define DT__ARRAYS (DT__TENSORS | DT__DRAWN_ARRAYS)
#define DT__DRAWN (DT__BIT(DT_DATA_DIGITS) | DT__BIT(DT_DATA_ADDER) | DT__DRAWN_ARRAYS)
#define DT__IMAGES (DT__IMAGE_FILES | DT__BIT(DT_DATA_DIGITS))

#endif
