/* experimental/all.h: the whole public interface, stable and experimental. */
#ifndef DETENT_EXPERIMENTAL_ALL_H
#define DETENT_EXPERIMENTAL_ALL_H

#include <detent/experimental/columns.h>
#include <detent/experimental/data.h>
#include <detent/experimental/detent.h>
#include <detent/experimental/device.h>
#include <detent/experimental/export.h>
#include <detent/experimental/figures.h>
#include <detent/experimental/io.h>
#include <detent/experimental/keys.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/machine.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/optim.h>
#include <detent/experimental/plugin.h>
#include <detent/experimental/ptq.h>
#include <detent/experimental/qat.h>
#include <detent/experimental/report.h>
#include <detent/experimental/sweep.h>
#include <detent/experimental/tables.h>
#include <detent/experimental/text.h>
#include <detent/experimental/train.h>

#endif
