"""Exports networks of torchvision with random weights as ONNX files, for scripts/check-import.

    python3 scripts/onnx-networks.py FOLDER [NAME ...]

FOLDER/NAME.onnx is as PyTorch exports it, with batch norms folded into convolutions;
NAME.norms.onnx keeps them, to train further. Images are 3 x 32 x 32, so that a file of random
images in CIFAR-10's format can train all of them: FOLDER/cifar.bin."""
import os
import sys
import warnings

import numpy as np
import torch
import torchvision

NAMES = ["mobilenet_v2", "mobilenet_v3_small", "resnet18", "squeezenet1_1", "shufflenet_v2_x0_5",
         "regnet_y_400mf", "convnext_tiny"]
SIDE = 32


def export(name, folder):
    torch.manual_seed(0)
    net = getattr(torchvision.models, name)(weights=None, num_classes=10)
    net.train()
    with torch.no_grad():  # statistics of the norms
        for _ in range(3):
            net(torch.randn(16, 3, SIDE, SIDE))
    net.eval()
    x = torch.randn(2, 3, SIDE, SIDE)
    common = {"input_names": ["input"], "output_names": ["output"], "opset_version": 17,
              "dynamic_axes": {"input": {0: "n"}, "output": {0: "n"}}, "dynamo": False}
    torch.onnx.export(net, x, os.path.join(folder, name + ".onnx"), **common)
    torch.onnx.export(net, x, os.path.join(folder, name + ".norms.onnx"),
                      do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE,
                      **common)


def write_images(path, count=64):
    """Images of ten classes that differ in their mean."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 10
    pixels = random.integers(0, 128, (count, 3 * SIDE * SIDE)) + 12 * labels[:, None]
    with open(path, "wb") as file:
        file.write(np.concatenate([labels[:, None], pixels], 1).astype(np.uint8).tobytes())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    write_images(os.path.join(sys.argv[1], "cifar.bin"))
    for network in sys.argv[2:] or NAMES:
        export(network, sys.argv[1])
