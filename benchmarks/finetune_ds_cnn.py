"""The training script of DS-CNN on keywords, for `ingot compress --finetune`. The environment variable DATA
names the folder that `benchmarks.compressed` takes.

It trains on the first half of the published inputs, and needs no labels: the network learns what the one
before pruning says of them. Five hundred are few, so each is changed as another recording would change it:
earlier or later, faster or slower, through another microphone (a constant for each coefficient of the
cepstrum, loudness included), with noise, and mixed with another. `evaluate` counts among the other half.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.accuracy import ds_cnn
from benchmarks.distilling import Distilling

BATCH, FRAMES, SHIFT, STRETCH = 64, 49, 6, 0.15
CHANNEL, NOISE = 0.3, 0.2
"""Of the standard deviation of a coefficient."""
TEMPERATURE = 4.0
_task = ds_cnn(Path(os.environ["DATA"]))
_inputs, _test, _right = (torch.from_numpy(a) for a in (_task.calibration, _task.test, _task.labels))
_deviation = _inputs.std(dim=(0, 1))


def batch() -> tuple[Tensor, Tensor]:
    """Inputs, and classes that nothing reads."""
    pair = [_moved(_inputs[torch.randint(0, len(_inputs), (BATCH,))]) for _ in range(2)]
    share = torch.rand(BATCH, 1, 1, 1) * (torch.rand(BATCH, 1, 1, 1) < 0.5)
    mixed = pair[0] + share * (pair[1] - pair[0])
    channel = CHANNEL * torch.randn(BATCH, 1, *_deviation.shape)
    noise = NOISE * torch.rand(BATCH, 1, 1, 1) * torch.randn_like(mixed)
    return mixed + _deviation * (channel + noise), torch.zeros(BATCH, dtype=torch.int64)


def _moved(inputs: Tensor) -> Tensor:
    """Each later or earlier, and stretched about its middle; the first or last frame is repeated."""
    speed = 1 + STRETCH * (2 * torch.rand(len(inputs), 1) - 1)
    by = SHIFT * (2 * torch.rand(len(inputs), 1) - 1)
    middle = (FRAMES - 1) / 2
    at = (middle + speed * (torch.arange(FRAMES) - middle) + by).clamp(0, FRAMES - 1)
    low = at.floor().long().clamp(max=FRAMES - 2)
    rows, weight = torch.arange(len(inputs))[:, None], (at - low)[..., None, None]
    return inputs[rows, low] * (1 - weight) + inputs[rows, low + 1] * weight


def held() -> Iterator[tuple[Tensor, Tensor]]:
    yield _test, _right


_distilling = Distilling(batch, held, labelled=0.0, rate=0.0125, temperature=TEMPERATURE)
prepare, train, evaluate = _distilling.prepare, _distilling.train, _distilling.evaluate
