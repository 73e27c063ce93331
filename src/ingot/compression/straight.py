"""Weights that a network sees shared, and its optimiser sees as they are: the straight-through estimator.

    before a forward pass    tensor = centroids[nearest(weights)], 0 where pruned
    after its backward pass  tensor = weights, which the gradient of the shared ones now moves

So a weight changes its cluster when training moves it there (arXiv:1308.3432). Every centroid is the mean of
its cluster, computed anew in each pass: one iteration of k-means for each step of the optimiser. Called by
`finetune`.
"""

from __future__ import annotations

from typing import Any

from ingot.formula.expr import Array


class Straight:
    """One tensor. `kept`: bool of its shape, which weights are not pruned; `values`: centroids to begin with.

    The tensor changes between its two forms in place, so the network and the optimiser keep it as it is.
    """

    def __init__(self, tensor: Any, kept: Any, values: Array) -> None:
        import torch

        self.tensor, self.kept = tensor, kept
        centroids = torch.from_numpy(values).to(tensor.device)
        self.centroids = centroids[centroids != 0].unique()
        self.weights: Any = None

    def attach(self, network: Any) -> list[Any]:
        """Share before each forward pass, and free after each backward pass. Returns handles that end it."""
        return [
            network.register_forward_pre_hook(lambda *_: self.share()),
            self.tensor.register_post_accumulate_grad_hook(lambda _: self.free()),
        ]

    def share(self) -> None:
        """Give each weight the value of its cluster, unless it has it."""
        if self.weights is None:
            self.weights = self.tensor.detach().clone()
            self.tensor.data.copy_(self._shared())

    def free(self) -> None:
        """Give each weight its own value again, if it has that of its cluster."""
        if self.weights is None:
            return
        self.tensor.data.copy_(self.weights)
        self.tensor.grad.mul_(self.kept)
        self.weights = None

    def _shared(self) -> Any:
        """The weights, each as the mean of its cluster; zeros where pruned."""
        import torch

        weights, count = self.weights[self.kept], len(self.centroids)
        codes = torch.bucketize(weights, (self.centroids[1:] + self.centroids[:-1]) / 2)
        sizes = torch.bincount(codes, minlength=count)
        sums = torch.zeros_like(self.centroids).index_add_(0, codes, weights)
        self.centroids = torch.where(sizes > 0, sums / sizes.clamp(min=1), self.centroids)
        shared = torch.zeros_like(self.weights)
        shared[self.kept] = self.centroids[codes]
        return shared
