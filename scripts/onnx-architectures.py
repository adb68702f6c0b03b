"""Networks of forty and more public architectures, small, with random weights, as ONNX files.

    python3 scripts/onnx-architectures.py FOLDER [NAME ...]

Each is written here from its paper, which its line names. FOLDER/NAME.onnx is as PyTorch exports
it, by the exporter of TorchScript and, as NAME.dynamo.onnx, by that of torch.export;
FOLDER/NAME.flat.onnx gives one row of numbers for an example, to train with the targets of
FOLDER/NAME.y.npy and the inputs of FOLDER/NAME.x.npy; FOLDER/NAME.safetensors holds inputs and
outputs, for `detent import --check`. For scripts/check-architectures."""
import os
import sys
import warnings

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F


def conv(i, o, k=3, s=1, g=1, d=1, act=nn.ReLU):
    layers = [nn.Conv2d(i, o, k, s, d * (k // 2), d, g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(width, classes=10):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class Sum(nn.Module):
    """x + f(x), and a function behind it."""

    def __init__(self, body, short=None, after=None):
        super().__init__()
        self.body, self.short, self.after = body, short or nn.Identity(), after or nn.Identity()

    def forward(self, x):
        return self.after(self.short(x) + self.body(x))


class Gate(nn.Module):
    """Squeeze and excitation, Hu 2018."""

    def __init__(self, c, squeeze=4, act=nn.ReLU, gate=nn.Sigmoid):
        super().__init__()
        self.f = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // squeeze, 1), act(),
                               nn.Conv2d(c // squeeze, c, 1), gate())

    def forward(self, x):
        return x * self.f(x)


class Shuffle(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.view(-1, self.groups, c // self.groups, h, w)
        return x.transpose(1, 2).reshape(-1, c, h, w)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Joined(nn.Module):
    """Parts side by side, joined by channels."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return torch.cat([p(x) for p in self.parts], 1)


def inverted(i, o, e, s=1, k=3, act=nn.ReLU6, gate=None):
    body = [conv(i, e, 1, act=act), conv(e, e, k, s, e, act=act)]
    body += [gate] if gate else []
    body += [conv(e, o, 1, act=None)]
    return Sum(nn.Sequential(*body)) if i == o and s == 1 else nn.Sequential(*body)


def resnet():  # He 2016
    def block(i, o, s):
        short = conv(i, o, 1, s, act=None) if i != o or s > 1 else None
        return Sum(nn.Sequential(conv(i, o, 3, s), conv(o, o, act=None)), short, nn.ReLU())
    return nn.Sequential(conv(3, 16), block(16, 16, 1), block(16, 32, 2), block(32, 64, 2),
                         head(64))


def preact_resnet():  # He 2016, identity mappings
    def block(c):
        return Sum(nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1),
                                 nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)))
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), block(16), nn.MaxPool2d(2), block(16),
                         nn.BatchNorm2d(16), nn.ReLU(), head(16))


def regnet():  # Radosavovic 2020, with gates
    def block(i, o, s):
        body = nn.Sequential(conv(i, o, 1), conv(o, o, 3, s, o // 8), Gate(o), conv(o, o, 1,
                                                                                    act=None))
        return Sum(body, conv(i, o, 1, s, act=None), nn.ReLU())
    return nn.Sequential(conv(3, 16, s=2), block(16, 24, 1), block(24, 48, 2), head(48))


def efficientnet():  # Tan 2019
    def block(i, o, s, k):
        return inverted(i, o, 4 * i, s, k, nn.SiLU, Gate(4 * i, 16, nn.SiLU))
    return nn.Sequential(conv(3, 16, s=2, act=nn.SiLU), block(16, 16, 1, 3), block(16, 24, 2, 5),
                         block(24, 24, 1, 5), conv(24, 64, 1, act=nn.SiLU), head(64))


def mobilenet_v1():  # Howard 2017
    def block(i, o, s):
        return nn.Sequential(conv(i, i, 3, s, i), conv(i, o, 1))
    return nn.Sequential(conv(3, 8, s=2), block(8, 16, 1), block(16, 32, 2), block(32, 32, 1),
                         head(32))


def mobilenet_v2():  # Sandler 2018
    return nn.Sequential(conv(3, 16, s=2, act=nn.ReLU6), inverted(16, 16, 48),
                         inverted(16, 24, 96, 2), inverted(24, 24, 96),
                         conv(24, 64, 1, act=nn.ReLU6), nn.Dropout(0.2), head(64))


def mobilenet_v3():  # Howard 2019
    def block(i, o, s, act, gate):
        return inverted(i, o, 3 * i, s, 5, act, gate and Gate(3 * i, 4, nn.ReLU, nn.Hardsigmoid))
    return nn.Sequential(conv(3, 16, s=2, act=nn.Hardswish), block(16, 16, 1, nn.ReLU, True),
                         block(16, 24, 2, nn.Hardswish, False), block(24, 24, 1, nn.Hardswish,
                                                                      True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 48), nn.Hardswish(),
                         nn.Linear(48, 10))


def mobilenet_v4():  # Qin 2024: universal inverted bottlenecks
    def block(i, o, s, first):
        body = [conv(i, i, 3, 1, i, act=None)] if first else []
        body += [conv(i, 4 * i, 1), conv(4 * i, 4 * i, 5, s, 4 * i), conv(4 * i, o, 1, act=None)]
        return Sum(nn.Sequential(*body)) if i == o else nn.Sequential(*body)
    return nn.Sequential(conv(3, 16, s=2), block(16, 24, 2, True), block(24, 24, 1, True),
                         block(24, 24, 1, False), head(24))


def shufflenet_v1():  # Zhang 2018
    def block(c, g):
        return Sum(nn.Sequential(conv(c, c, 1, g=g), Shuffle(g), conv(c, c, 3, g=c, act=None),
                                 conv(c, c, 1, g=g, act=None)), None, nn.ReLU())
    return nn.Sequential(conv(3, 24, s=2), block(24, 3), nn.MaxPool2d(3, 2, 1), block(24, 2),
                         head(24))


class ShuffleUnit(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.f = nn.Sequential(conv(h, h, 1), conv(h, h, 3, g=h, act=None), conv(h, h, 1))
        self.shuffle = Shuffle(2)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return self.shuffle(torch.cat([a, self.f(b)], 1))


def shufflenet_v2():  # Ma 2018
    return nn.Sequential(conv(3, 16, s=2), ShuffleUnit(16), ShuffleUnit(16), head(16))


def convnext():  # Liu 2022
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.mix, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
            self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.scale = nn.Parameter(0.5 * torch.ones(c))

        def forward(self, x):
            y = self.norm(self.mix(x).permute(0, 2, 3, 1))
            y = self.scale * self.down(F.gelu(self.up(y)))
            return x + y.permute(0, 3, 1, 2)
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), LayerNorm2d(16), Block(16), LayerNorm2d(16),
                         nn.Conv2d(16, 32, 2, 2), Block(32), head(32))


def densenet():  # Huang 2017
    def unit(i, grow):
        body = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, grow, 3, padding=1,
                                                                     bias=False))
        return Joined(nn.Identity(), body)
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), unit(12, 6), unit(18, 6),
                         conv(24, 12, 1), nn.AvgPool2d(2), unit(12, 6), head(18))


def squeezenet():  # Iandola 2016
    def fire(i, s, e):
        return nn.Sequential(nn.Conv2d(i, s, 1), nn.ReLU(),
                             Joined(nn.Sequential(nn.Conv2d(s, e, 1), nn.ReLU()),
                                    nn.Sequential(nn.Conv2d(s, e, 3, padding=1), nn.ReLU())))
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
                         fire(16, 8, 16), fire(32, 8, 16), nn.Dropout(), nn.Conv2d(32, 10, 1),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def inception():  # Szegedy 2016: factorized convolutions
    def asym(i, o, k):
        return nn.Sequential(nn.Conv2d(i, o, (1, k), padding=(0, k // 2)), nn.ReLU(),
                             nn.Conv2d(o, o, (k, 1), padding=(k // 2, 0)), nn.ReLU())
    block = Joined(conv(16, 8, 1), nn.Sequential(conv(16, 8, 1), asym(8, 8, 7)),
                   nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(16, 8, 1)))
    return nn.Sequential(conv(3, 16, s=2), block, nn.MaxPool2d(3, 2), head(24))


def vgg():  # Simonyan 2015
    def stage(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)]
    return nn.Sequential(*stage(3, 8), *stage(8, 16), *stage(16, 16), nn.Flatten(),
                         nn.Linear(256, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10))


def ghostnet():  # Han 2020
    def ghost(i, o):
        first = conv(i, o // 2, 1)
        return nn.Sequential(first, Joined(nn.Identity(), conv(o // 2, o // 2, 3, g=o // 2)))
    return nn.Sequential(conv(3, 16, s=2), Sum(nn.Sequential(ghost(16, 32), Gate(32), ghost(32,
                                                                                          16))),
                         head(16))


def repvgg():  # Ding 2021, as it is trained
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a, self.b = conv(c, c, act=None), conv(c, c, 1, act=None)
            self.c = nn.BatchNorm2d(c)

        def forward(self, x):
            return F.relu(self.a(x) + self.b(x) + self.c(x))
    return nn.Sequential(conv(3, 16, s=2), Block(16), Block(16), head(16))


def convmixer():  # Trockman 2022
    def block(c):
        mix = nn.Sequential(nn.Conv2d(c, c, 5, padding=2, groups=c), nn.GELU(), nn.BatchNorm2d(c))
        return nn.Sequential(Sum(mix), nn.Conv2d(c, c, 1), nn.GELU(), nn.BatchNorm2d(c))
    return nn.Sequential(nn.Conv2d(3, 24, 4, 4), nn.GELU(), nn.BatchNorm2d(24), block(24),
                         block(24), head(24))


def poolformer():  # Yu 2022
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.n1, self.n2 = nn.GroupNorm(1, c), nn.GroupNorm(1, c)
            self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
            self.mlp = nn.Sequential(nn.Conv2d(c, 2 * c, 1), nn.GELU(), nn.Conv2d(2 * c, c, 1))

        def forward(self, x):
            y = self.n1(x)
            x = x + self.pool(y) - y
            return x + self.mlp(self.n2(x))
    return nn.Sequential(nn.Conv2d(3, 16, 7, 4, 2), Block(16), Block(16), head(16))


class UNet(nn.Module):  # Ronneberger 2015
    def __init__(self, mode):
        super().__init__()
        self.a, self.b, self.c = conv(3, 8), conv(8, 16), conv(24, 8)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2) if mode == "conv" else nn.Upsample(
            scale_factor=2, mode="bilinear", align_corners=mode == "corners")
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        return self.out(self.c(torch.cat([a, self.up(b)], 1)))


class UNetPlus(nn.Module):  # Zhou 2018, UNet++
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 8), conv(8, 8), conv(8, 8)
        self.ab, self.bc, self.abc = conv(16, 8), conv(16, 8), conv(24, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        def up(v):
            return F.interpolate(v, scale_factor=2, mode="bilinear", align_corners=False)
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        ab, bc = self.ab(torch.cat([a, up(b)], 1)), self.bc(torch.cat([b, up(c)], 1))
        return torch.sigmoid(self.out(self.abc(torch.cat([a, ab, up(bc)], 1))))


class DeepLab(nn.Module):  # Chen 2017: pyramid of dilated convolutions
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, s=2), conv(16, 16, s=2))
        self.parts = nn.ModuleList([conv(16, 8, 1), conv(16, 8, 3, d=2), conv(16, 8, 3, d=3)])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.out = nn.Sequential(conv(32, 8, 1), nn.Conv2d(8, 3, 1))

    def forward(self, x):
        y = self.body(x)
        wide = F.interpolate(self.pool(y), size=(8, 8), mode="bilinear", align_corners=False)
        y = self.out(torch.cat([p(y) for p in self.parts] + [wide], 1))
        return F.interpolate(y, size=(32, 32), mode="bilinear", align_corners=False)


def autoencoder():  # Hinton 2006, convolutions
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1),
                         nn.ReLU(), nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.ReLU(),
                         nn.ConvTranspose2d(8, 3, 3, 2, 1, 1), nn.Tanh())


def generator():  # Radford 2016, DCGAN
    return nn.Sequential(nn.Unflatten(1, (32, 1, 1)), nn.ConvTranspose2d(32, 16, 4, 1, 0,
                                                                         bias=False),
                         nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 8, 4, 2, 1,
                                                                           bias=False),
                         nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1),
                         nn.Tanh())


def discriminator():  # the same
    return nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1),
                         nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU(0.2),
                         nn.Conv2d(16, 1, 8), nn.Flatten())


def srcnn():  # Shi 2016: sub-pixel convolution
    return nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 12, 3,
                                                                                padding=1),
                         nn.PixelShuffle(2))


class TCN(nn.Module):  # Bai 2018
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(6, 16, 3, dilation=1), nn.Conv1d(16, 16, 3, dilation=2)
        self.short, self.out = nn.Conv1d(6, 16, 1), nn.Linear(16, 5)

    def forward(self, x):
        y = F.relu(self.a(F.pad(x, (2, 0))))
        y = F.relu(self.b(F.pad(y, (4, 0))))
        return self.out(F.relu(y + self.short(x))[:, :, -1])


class WaveNet(nn.Module):  # van den Oord 2016
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.gates = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=d) for d in (1, 2, 4)])
        self.mix = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(3)])
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(8, 8, 1), nn.ReLU(), nn.Conv1d(8, 4, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for d, gate, mix in zip((1, 2, 4), self.gates, self.mix):
            a, b = gate(F.pad(x, (d, 0))).chunk(2, 1)
            y = mix(torch.tanh(a) * torch.sigmoid(b))
            total, x = total + y, x + y
        return self.out(total)


class CRNN(nn.Module):  # Shi 2015
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(1, 8), nn.MaxPool2d(2), conv(8, 16), nn.MaxPool2d((2, 1)))
        self.rnn = nn.LSTM(16 * 4, 12, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 11)

    def forward(self, x):
        y = self.body(x).permute(0, 3, 1, 2).flatten(2)
        return self.out(self.rnn(y)[0])


class Tagger(nn.Module):  # Graves 2005, BiLSTM
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(7, 10, batch_first=True, bidirectional=True)
        self.out = nn.Linear(20, 4)

    def forward(self, x):
        return torch.log_softmax(self.out(self.rnn(x)[0]), -1)


class ViT(nn.Module):  # Dosovitskiy 2021
    def __init__(self, layer):
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 8, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 24) * 0.1)
        self.body, self.norm, self.out = layer, nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2) + self.place
        return self.out(self.norm(self.body(y)).mean(1))


class Mixer(nn.Module):  # Tolstikhin 2021
    def __init__(self, tokens=16, c=24):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.a = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.b = nn.Sequential(nn.Linear(c, 48), nn.GELU(), nn.Linear(48, c))

    def forward(self, x):
        x = x + self.a(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.b(self.n2(x))


class Attention(nn.Module):  # Vaswani 2017, before its norm; written out
    def __init__(self, c=24, heads=3):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.heads = heads
        self.mlp = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 48), nn.GELU(), nn.Linear(48, c))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(-1, t, 3, self.heads, c // self.heads).permute(
            2, 0, 3, 1, 4).unbind(0)
        p = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, -1)
        x = x + self.out((p @ v).transpose(1, 2).reshape(-1, t, c))
        return x + self.mlp(x)


def keywords():  # Zhang 2017, DS-CNN
    def block(c):
        return nn.Sequential(conv(c, c, 3, g=c), conv(c, c, 1))
    return nn.Sequential(nn.Conv2d(1, 16, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(16), nn.ReLU(),
                         block(16), block(16), nn.AvgPool2d((25, 5)), nn.Flatten(),
                         nn.Linear(16, 12))


class RMSNorm(nn.Module):  # Zhang 2019
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class GatedMLP(nn.Module):  # Shazeer 2020
    def __init__(self, c=24):
        super().__init__()
        self.norm, self.a, self.b = RMSNorm(c), nn.Linear(c, 40), nn.Linear(c, 40)
        self.out = nn.Linear(40, c)

    def forward(self, x):
        y = self.norm(x)
        return x + self.out(F.silu(self.a(y)) * self.b(y))


class Windows(nn.Module):  # Liu 2021, Swin: attention inside of windows of 4 x 4, and shifted ones
    def __init__(self, c=24, heads=3, shift=0):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 48), nn.GELU(), nn.Linear(48, c))
        self.heads, self.shift = heads, shift
        self.bias = nn.Parameter(torch.randn(heads, 16, 16) * 0.1)
        part = torch.zeros(8, 8)
        for i, rows in enumerate((slice(0, 4), slice(4, 8 - shift), slice(8 - shift, 8))):
            for k, columns in enumerate((slice(0, 4), slice(4, 8 - shift), slice(8 - shift, 8))):
                part[rows, columns] = 3 * i + k
        part = part.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
        apart = part[:, None, :] != part[:, :, None]
        self.register_buffer("mask", torch.zeros(4, 1, 16, 16).masked_fill(apart[:, None], -100))

    def forward(self, x):  # [n, 8, 8, c]
        c, y = x.shape[-1], self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(-1, 2, 4, 2, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(y).view(-1, 16, 3, self.heads, c // self.heads).permute(
            2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5 + self.bias
        if self.shift:
            scores = (scores.view(-1, 4, self.heads, 16, 16) + self.mask).view(
                -1, self.heads, 16, 16)
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, 16, c)
        y = self.out(y).view(-1, 2, 2, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 8, 8, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(x)


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.body = nn.Conv2d(3, 24, 4, 4), nn.Sequential(Windows(), Windows(shift=2))
        self.norm, self.out = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, x):
        y = self.norm(self.body(self.patch(x).permute(0, 2, 3, 1)))
        return self.out(y.mean((1, 2)))


class Perceiver(nn.Module):  # Jaegle 2021
    def __init__(self, c=24):
        super().__init__()
        self.patch, self.latents = nn.Conv2d(3, c, 4, 4), nn.Parameter(torch.randn(6, c))
        self.cross = nn.MultiheadAttention(c, 3, batch_first=True)
        self.norm = nn.LayerNorm(c)
        self.body = Attention(c)
        self.out = nn.Linear(c, 10)

    def forward(self, x):
        y = self.patch(x).flatten(2).transpose(1, 2)
        z = self.latents.expand(x.shape[0], -1, -1)
        z = z + self.cross(self.norm(z), y, y, need_weights=False)[0]
        return self.out(self.body(z).mean(1))


class Conformer(nn.Module):  # Gulati 2020
    def __init__(self, c=16):
        super().__init__()
        self.first, self.last = self.half(c), self.half(c)
        self.n1, self.n2, self.n3 = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.attention = nn.MultiheadAttention(c, 2)
        self.conv = nn.Sequential(nn.Conv1d(c, 2 * c, 1), nn.GLU(1),
                                  nn.Conv1d(c, c, 5, padding=2, groups=c), nn.BatchNorm1d(c),
                                  nn.SiLU(), nn.Conv1d(c, c, 1))

    @staticmethod
    def half(c):
        return nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c))

    def forward(self, x):  # [n, time, c]
        x = (x + self.first(x) / 2).transpose(0, 1)
        y = self.n1(x)
        x = x + self.attention(y, y, y)[0]
        x = x + self.conv(self.n2(x).permute(1, 2, 0)).permute(2, 0, 1)
        return self.n3(x + self.last(x) / 2).transpose(0, 1)


class DETR(nn.Module):  # Carion 2020: queries of objects; the batch is second
    def __init__(self, c=24):
        super().__init__()
        self.body = nn.Sequential(conv(3, c, s=2), conv(c, c, s=4))
        self.place = nn.Parameter(torch.randn(16, 1, c) * 0.1)
        self.queries = nn.Parameter(torch.randn(5, c))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(c, 3, 48), 1,
                                             enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(c, 3, 48), 2)
        self.classes, self.boxes = nn.Linear(c, 4), nn.Linear(c, 4)

    def forward(self, x):
        y = self.encoder(self.body(x).flatten(2).permute(2, 0, 1) + self.place)
        z = self.decoder(self.queries.unsqueeze(1).repeat(1, x.shape[0], 1), y).transpose(0, 1)
        return torch.cat([self.classes(z), torch.sigmoid(self.boxes(z))], -1)


class Listener(nn.Module):  # Shi 2015, its sequence pooled by attention (Yang 2016)
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(1, 8), nn.MaxPool2d(2), conv(8, 16), nn.MaxPool2d((2, 1)))
        self.rnn = nn.GRU(16 * 4, 12, batch_first=True, bidirectional=True)
        self.score = nn.Sequential(nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 1, bias=False))
        self.out = nn.Linear(24, 11)

    def forward(self, x):
        y = self.rnn(self.body(x).permute(0, 3, 1, 2).flatten(2))[0]
        return self.out((torch.softmax(self.score(y), 1) * y).sum(1))


class Encoder(nn.Module):  # Vaswani 2017, by torch.nn; the batch is second, or steps are causal
    def __init__(self, causal):
        super().__init__()
        self.first, self.out, self.causal = nn.Linear(8, 24), nn.Linear(24, 5), causal
        layer = nn.TransformerEncoderLayer(24, 3, 48, batch_first=causal, norm_first=causal)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        y = self.first(x)
        if self.causal:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.out(self.body(y, mask=mask, is_causal=True))
        return self.out(self.body(y.transpose(0, 1)).transpose(0, 1))


IMAGE = (3, 32, 32)
NETS = {
    "resnet": (resnet, IMAGE), "preact_resnet": (preact_resnet, IMAGE), "regnet": (regnet, IMAGE),
    "efficientnet": (efficientnet, IMAGE), "mobilenet_v1": (mobilenet_v1, IMAGE),
    "mobilenet_v2": (mobilenet_v2, IMAGE), "mobilenet_v3": (mobilenet_v3, IMAGE),
    "mobilenet_v4": (mobilenet_v4, IMAGE), "shufflenet_v1": (shufflenet_v1, IMAGE),
    "shufflenet_v2": (shufflenet_v2, IMAGE), "convnext": (convnext, IMAGE),
    "densenet": (densenet, IMAGE), "squeezenet": (squeezenet, IMAGE),
    "inception": (inception, IMAGE), "vgg": (vgg, IMAGE), "ghostnet": (ghostnet, IMAGE),
    "repvgg": (repvgg, IMAGE), "convmixer": (convmixer, IMAGE), "poolformer": (poolformer, IMAGE),
    "unet": (lambda: UNet("conv"), IMAGE), "unet_bilinear": (lambda: UNet("half"), IMAGE),
    "unet_corners": (lambda: UNet("corners"), IMAGE), "unet_plus": (UNetPlus, IMAGE),
    "deeplab": (DeepLab, IMAGE), "autoencoder": (autoencoder, IMAGE),
    "generator": (generator, (32,)), "discriminator": (discriminator, IMAGE),
    "srcnn": (srcnn, (3, 16, 16)), "tcn": (TCN, (6, 40)), "wavenet": (WaveNet, (1, 64)),
    "crnn": (CRNN, (1, 16, 24)), "bilstm_tagger": (lambda: Tagger(nn.LSTM), (12, 7)),
    "bigru_tagger": (lambda: Tagger(nn.GRU), (12, 7)),
    "vit": (lambda: ViT(nn.Sequential(Attention(), Attention())), IMAGE),
    "vit_torch": (lambda: ViT(nn.TransformerEncoder(nn.TransformerEncoderLayer(
        24, 3, 48, 0.1, "gelu", batch_first=True, norm_first=True), 2)), IMAGE),
    "mlp_mixer": (lambda: ViT(nn.Sequential(Mixer(), Mixer())), IMAGE),
    "gated_mlp": (lambda: ViT(nn.Sequential(GatedMLP(), GatedMLP())), IMAGE),
    "keywords": (keywords, (1, 49, 10)),
    "swin": (Swin, IMAGE), "perceiver": (Perceiver, IMAGE), "conformer": (Conformer, (20, 16)),
    "detr": (DETR, IMAGE), "listener": (Listener, (1, 16, 24)),
    "encoder": (lambda: Encoder(False), (12, 8)), "causal": (lambda: Encoder(True), (12, 8)),
}


def write(folder, name):
    torch.manual_seed(1)
    make, shape = NETS[name]
    net = make()
    with torch.no_grad():  # statistics of norms, and weights that are not all alike
        for p in net.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
        for _ in range(3):
            net(torch.randn(8, *shape))
    net.eval()
    x = torch.randn(5, *shape)
    with torch.no_grad():
        y = net(x)
    at = os.path.join(folder, name)
    save_file({"input": x.numpy(), "output": y.contiguous().numpy()}, at + ".safetensors")
    many = torch.randn(64, *shape)
    np.save(at + ".x.npy", many.numpy())
    with torch.no_grad():
        np.save(at + ".y.npy", net(many).flatten(1).numpy())
    names = {"input_names": ["input"], "output_names": ["output"]}
    axes = {"input": {0: "n"}, "output": {0: "n"}}
    torch.onnx.export(net, x, at + ".onnx", opset_version=17, dynamic_axes=axes, dynamo=False,
                      **names)
    torch.onnx.export(nn.Sequential(net, nn.Flatten()), x, at + ".flat.onnx", opset_version=17,
                      dynamic_axes=axes, dynamo=False, training=torch.onnx.TrainingMode.PRESERVE,
                      do_constant_folding=False, **names)
    torch.onnx.export(net, (x,), at + ".dynamo.onnx", dynamo=True, external_data=False,
                      dynamic_shapes=({0: torch.export.Dim("n", min=2)},), verbose=False, **names)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # its operators are not those of ONNX
    for network in sys.argv[2:] or NETS:
        try:
            write(sys.argv[1], network)
        except Exception as error:  # an exporter's own fault is not the import's
            print(network, "is not exported:", str(error).splitlines()[0], file=sys.stderr)
