"""The process that holds a peer: takes one job, then samples for as long as it is asked.

Started by `check/opponent.py` with a pipe's number, a core and the adapter's name. What the peer prints goes
to standard error. Answers: ("ready", version, outputs), ("samples", seconds), ("missing" | "refused", why).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import resource
import sys
from multiprocessing.connection import Connection
from typing import Any

from ingot.peers.job import Refused, first_line

STACK_BYTES = 120 << 20  # generated C keeps tensors on the stack; the kernel leaves 128 MB free below it


def main() -> None:
    """See above."""
    number, core, module, package = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})  # first, so that every library sees one processor
    os.dup2(2, 1)
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = STACK_BYTES if hard == resource.RLIM_INFINITY else min(hard, STACK_BYTES)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    with Connection(int(number)) as connection:
        try:
            adapter = importlib.import_module(f"ingot.peers.{module}")
            serve(adapter, package, connection)
        except ImportError as error:
            connection.send(("missing", first_line(error)))
        except Refused as error:
            connection.send(("refused", str(error)))
        except EOFError:
            return  # nobody asks any more
        except Exception as error:
            connection.send(("refused", f"{type(error).__name__}: {first_line(error)}"))


def serve(adapter: Any, package: str, connection: Connection) -> None:
    """Answer until the other side asks for no more samples."""
    with adapter.open_session(connection.recv()) as session:
        version = importlib.metadata.version(package) if package else ""
        connection.send(("ready", version, session.run()))
        while repeat := connection.recv():
            connection.send(("samples", session.time(repeat)))


if __name__ == "__main__":
    main()
