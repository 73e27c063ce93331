"""The training script of DS-CNN on keywords, for `ingot compress --finetune`. The environment variable DATA
names the folder that `benchmarks.compressed` takes.

It trains on the first half of the published inputs, and needs no labels: the network learns what the one
before pruning says of them, shifted in time, mixed by two, and with noise. `evaluate` counts among the other
half.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.accuracy import ds_cnn
from benchmarks.distilling import Distilling

BATCH, FRAMES, SHIFT, NOISE = 64, 49, 6, 0.1
_task = ds_cnn(Path(os.environ["DATA"]))
_inputs, _test, _right = (torch.from_numpy(a) for a in (_task.calibration, _task.test, _task.labels))


def batch() -> tuple[Tensor, Tensor]:
    """Inputs, and classes that nothing reads."""
    pair = [_shifted(_inputs[torch.randint(0, len(_inputs), (BATCH,))]) for _ in range(2)]
    share = torch.rand(BATCH, 1, 1, 1) * (torch.rand(BATCH, 1, 1, 1) < 0.5)
    mixed = pair[0] + share * (pair[1] - pair[0])
    noise = NOISE * torch.rand(()) * mixed.std() * torch.randn_like(mixed)
    return mixed + noise, torch.zeros(BATCH, dtype=torch.int64)


def _shifted(inputs: Tensor) -> Tensor:
    """Each later or earlier by up to so many frames; the first or last frame is repeated."""
    by = torch.randint(-SHIFT, SHIFT + 1, (len(inputs), 1))
    frames = (torch.arange(FRAMES) + by).clamp(0, FRAMES - 1)
    return inputs[torch.arange(len(inputs))[:, None], frames]


def held() -> Iterator[tuple[Tensor, Tensor]]:
    yield _test, _right


_distilling = Distilling(batch, held, labelled=0.0)
prepare, train, evaluate = _distilling.prepare, _distilling.train, _distilling.evaluate
