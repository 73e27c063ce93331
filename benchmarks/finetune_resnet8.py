"""The training script of ResNet-8 on CIFAR-10, for `ingot compress --finetune`. The environment variable DATA
names the folder that `benchmarks.compressed` takes.

Each image is shifted by up to four pixels and mirrored at random. `evaluate` counts among the test images.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.distilling import Distilling
from benchmarks.pictures import cached_pictures

BATCH, MARGIN, SIZE, RUN = 128, 4, 32, 250
_of = cached_pictures(Path(os.environ["DATA"]))
_images, _labels = torch.from_numpy(_of.training), torch.from_numpy(_of.training_labels)
_test, _right = torch.from_numpy(_of.test), torch.from_numpy(_of.test_labels)


def batch() -> tuple[Tensor, Tensor]:
    """Images float32 and their classes, each image shifted and mirrored on its own."""
    chosen = torch.randint(0, len(_images), (BATCH,))
    wide = pad(_images[chosen], (0, 0, MARGIN, MARGIN, MARGIN, MARGIN))
    down, right = torch.randint(0, 2 * MARGIN + 1, (2, BATCH, 1))
    across = torch.arange(SIZE).expand(BATCH, SIZE)
    mirrored = torch.rand(BATCH, 1) < 0.5
    rows, columns = torch.arange(SIZE) + down, torch.where(mirrored, SIZE - 1 - across, across) + right
    images = wide[torch.arange(BATCH)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return images.float(), _labels[chosen]


def held() -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(_test), RUN):
        yield _test[start : start + RUN].float(), _right[start : start + RUN]


_distilling = Distilling(batch, held, temperature=2.0)
prepare, train, evaluate = _distilling.prepare, _distilling.train, _distilling.evaluate
