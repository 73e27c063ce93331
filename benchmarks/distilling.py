"""What the training scripts of `benchmarks.compressed` share: distillation from the network before pruning.

The loss is the cross entropy with the labels and with what the network said before anything was changed,
in equal parts unless the script says otherwise. At a temperature above 1, the logits of both networks are
divided by it first. Then the classes that are wrong count as well, of which a network that is sure says
almost nothing. Each parameter has a learning rate in proportion to its size, because layers with folded
batch normalisations have weights of very different sizes. Products are computed in bfloat16, twice as fast.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

LEAST = 1e-30
"""The least probability whose logarithm is taken: the networks end in a softmax."""


@dataclass
class Distilling:
    """`batch` draws inputs float32 and classes int64, `held` yields those that the network is judged by.

    `rate` is Adam's, relative to the root mean square of a parameter, before a cosine schedule.
    """

    batch: Callable[[], tuple[Tensor, Tensor]]
    held: Callable[[], Iterable[tuple[Tensor, Tensor]]]
    labelled: float = 0.5
    rate: float = 0.005
    temperature: float = 1.0
    teacher: nn.Module | None = None

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
        groups = [{"params": [p], "lr": self.rate * _size(p)} for p in trained]
        optimizer = torch.optim.Adam(groups)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            inputs, labels = self.batch()
            loss = self._loss(network, inputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

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


def _size(parameter: Tensor) -> float:
    return float(parameter.detach().square().mean().sqrt())
