"""Work spread over processes of this machine, or over a Dask cluster; results come back in order.

In: a function of what all tasks share and of a task, and the tasks. Out: their results, in the order of the
tasks whatever finished first. Called by `ingot profile`; `ingot eie sweep` reaches its cluster through it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from ingot.errors import IngotError, InputError

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
WORKER_SECONDS = 10
AHEAD = 4  # tasks a worker has waiting: their results are held until their turn

_shared: Any = None


def spread(
    function: Callable[[S, T], R], shared: S, tasks: Iterable[T], workers: int, scheduler: str | None
) -> Iterator[R]:
    """Yield function(shared, task) for every task, in their order; here, if there is one worker.

    `shared` goes to every worker once. Raises InputError where a worker cannot be had or fails.
    """
    if scheduler is not None:
        yield from _on_cluster(function, shared, tasks, scheduler)
    elif workers > 1:
        yield from _on_processes(function, shared, tasks, workers)
    else:
        yield from (function(shared, task) for task in tasks)


def _on_processes(function: Callable[[S, T], R], shared: S, tasks: Iterable[T], workers: int) -> Iterator[R]:
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_hold, initargs=(shared,)) as pool:
        try:
            yield from _in_order((pool.submit(_held, function, task) for task in tasks), workers)
        finally:
            pool.shutdown(cancel_futures=True)


def _on_cluster(function: Callable[[S, T], R], shared: S, tasks: Iterable[T], address: str) -> Iterator[R]:
    with dask_client(address) as client:
        sent = client.scatter(shared, broadcast=True)
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        yield from _in_order((client.submit(function, sent, task, pure=False) for task in tasks), count)


def _in_order(futures: Iterator[Any], workers: int) -> Iterator[Any]:
    """The results of futures, of which few are submitted before they are needed."""
    waiting: deque[Any] = deque()
    for future in futures:
        waiting.append(future)
        if len(waiting) >= AHEAD * workers:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _result(future: Any) -> Any:
    try:
        return future.result()
    except IngotError:
        raise
    except Exception as error:  # whatever a machine we do not know can come to
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"a worker failed: {reason}"
        raise InputError(message, remedy="workers need memory, and Ingot in the same version") from None


def _hold(shared: Any) -> None:
    global _shared
    _shared = shared


def _held(function: Callable[[Any, Any], Any], task: Any) -> Any:
    return function(_shared, task)


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler whose workers have Ingot.

    Raises InputError where `distributed` is not installed or nobody answers.
    """
    try:
        from distributed import Client
    except ImportError:
        message = "a Dask scheduler is reached through the package distributed"
        raise InputError(message, remedy="pip install 'ingot[dask]'") from None
    try:
        client = Client(address, timeout=WORKER_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"no Dask scheduler at {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            message = f"the Dask scheduler at {address} has no workers"
            raise InputError(message, remedy=f"dask worker {address}") from None
        _require_ingot(client)
        yield client


def _require_ingot(client: Any) -> None:
    """A worker without Ingot dies of its first task, and the scheduler waits for another for ever."""

    def has_ingot() -> bool:  # goes to the workers as code, since it stands in a function
        from importlib.util import find_spec

        return find_spec("ingot") is not None

    lacking = [worker for worker, has_it in client.run(has_ingot).items() if not has_it]
    if lacking:
        raise InputError(f"there is no Ingot on the Dask worker {lacking[0]}", remedy="install it there")
