"""Facts about kernels that several steps ask for: what is read, which names are in use."""

from __future__ import annotations

from ingot.formula.expr import Tensor, loads
from ingot.formula.statements import Store, expressions, flatten
from ingot.loops.program import Kernel


def read_parameters(kernel: Kernel) -> frozenset[Tensor]:
    """The parameters a kernel loads from."""
    out: set[Tensor] = set()
    for s in flatten(kernel.body):
        for e in expressions(s):
            if isinstance(s, Store) and e is s.to:
                for i in s.to.index:
                    out.update(load.tensor for load in loads(i))
            else:
                out.update(load.tensor for load in loads(e))
    return frozenset(out)
