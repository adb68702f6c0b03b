"""What torchao does: its fake quantization, and models prepared with it."""

import torch
import torchao
from torchao.quantization import quantize_
from torchao.quantization.qat import IntxFakeQuantizeConfig, IntxFakeQuantizer, QATConfig

import work

SOURCE = "torchao " + torchao.__version__


def machine():
    return {"torchao": torchao.__version__}


def activation_config():
    return IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)


def weight_config(codes):
    if codes.group is None:
        return IntxFakeQuantizeConfig(torch.int8, "per_channel")
    return IntxFakeQuantizeConfig(torch.int4, group_size=codes.group)


def prepare(module):
    """detent's default preset: int8 activations by token, int4 weights in groups of 32."""
    weight = IntxFakeQuantizeConfig(torch.int4, group_size=work.GROUP)
    config = QATConfig(activation_config=activation_config(), weight_config=weight, step="prepare")
    quantize_(module, config)


def fake_quantize(x, codes):
    """A function that quantizes and dequantizes x."""
    config = activation_config() if codes.activation else weight_config(codes)
    quantizer = IntxFakeQuantizer(config)
    return lambda: quantizer(x)
