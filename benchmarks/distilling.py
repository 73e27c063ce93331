"""What the training scripts of `benchmarks.compressed` share: distillation from the network before pruning.

The loss is the cross entropy with the labels and with what the network said before anything was changed,
in equal parts unless the script says otherwise. At a temperature above 1, the logits of both networks are
divided by it first. Then the classes that are wrong count as well, of which a network that is sure says
almost nothing. Each parameter has a learning rate in proportion to its size, because layers have weights of
very different sizes. It falls along a cosine over as many rounds of training as the environment variable
ROUNDS says, and starts anew after them. Products are computed in bfloat16, twice as fast.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TAUGHT = 0.4
"""The rate with a teacher, relative to that before."""
WARMING = 100
"""Steps in which the rate rises."""
LEAST = 1e-30
"""The least probability whose logarithm is taken: the networks end in a softmax."""


@dataclass
class Distilling:
    """`batch` draws inputs float32 and classes int64, `held` yields those that the network is judged by.

    `rate` is Adam's at its peak, relative to the root mean square of a parameter. `done` are rounds of
    training with a teacher.
    """

    batch: Callable[[], tuple[Tensor, Tensor]]
    held: Callable[[], Iterable[tuple[Tensor, Tensor]]]
    labelled: float = 0.5
    rate: float = 0.01
    temperature: float = 1.0
    teacher: nn.Module | None = None
    done: int = 0

    def __post_init__(self) -> None:
        # two threads that wait for each other on a busy machine take ten times as long as one
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)

    def prepare(self, network: nn.Module) -> None:
        """Keep the network as it is before pruning."""
        torch.manual_seed(0)
        self.teacher = copy.deepcopy(network).eval()

    def train(self, network: nn.Module, steps: int) -> None:
        trained = [p for p in network.parameters() if p.requires_grad]
        rounds = 1 if self.teacher is None else int(os.environ.get("ROUNDS", "1"))
        peak = self.rate if self.teacher is None else TAUGHT * self.rate
        groups = [{"params": [p], "lr": peak * _size(p)} for p in trained]
        optimizer = torch.optim.Adam(groups)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda k: _falling(k, steps, self.done, rounds)
        )
        for _ in range(steps):
            inputs, labels = self.batch()
            loss = self._loss(network, inputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        self.done += self.teacher is not None

    def _loss(self, network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            said = network(inputs)
        said = said.float().clamp(min=LEAST).log()
        right = nn.functional.nll_loss(said, labels)
        if self.teacher is None:
            return right
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            wanted = self.teacher(inputs)
        wanted = (wanted.float().clamp(min=LEAST).log() / self.temperature).softmax(1)
        alike = -(wanted * (said / self.temperature).log_softmax(1)).sum(1).mean()
        return self.labelled * right + (1 - self.labelled) * self.temperature**2 * alike

    def evaluate(self, network: nn.Module) -> float:
        """The percentage of right answers."""
        right, count = 0, 0
        for inputs, labels in self.held():
            right += int((network(inputs).argmax(1) == labels).sum())
            count += len(labels)
        return 100 * right / count


def _falling(step: int, steps: int, done: int, rounds: int) -> float:
    """What the rate is multiplied by in a step of the round after so many rounds."""
    progress = (done % rounds + step / steps) / rounds
    return min(1.0, (step + 1) / WARMING) * (1 + math.cos(math.pi * progress)) / 2


def _size(parameter: Tensor) -> float:
    return float(parameter.detach().square().mean().sqrt())
