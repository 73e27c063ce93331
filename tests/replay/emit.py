"""The process that emits C with the sources it finds first: one commit's, which PYTHONPATH names.

In: requests on standard input, each a line of JSON and as many bytes of ONNX as it says. Out: a line of JSON
for each, target -> text. A replay runs the `emit.py` of the commit it asks, so this file may use
whatever its own commit has; the requests and answers must stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import onnx

from ingot.driver import stages
from ingot.emit.conventions import check
from ingot.emit.header import header
from ingot.emit.source import source
from ingot.emit.unit import Unit
from ingot.emit.weights import image
from ingot.errors import IngotError
from ingot.options import Options


def emit(model: onnx.ModelProto, options: Options) -> str:
    """Header, source and the digest of the weights; or why there are none."""
    try:
        made = stages(model, options)
        unit = Unit(
            made.program,
            made.plan,
            made.target,
            made.program.name,
            api=options.api,
            external=check(options.api, options.weights, bool(made.program.params), options.threads),
            is_threaded=options.threads,
            is_profiled=options.profile,
            pauses=options.pauses,
        )
        weights = image(unit)
        digest = hashlib.sha256(weights).hexdigest()
        return (
            f"{header(unit, None)}\n{source(unit)}\n/* weights: {len(weights)} bytes, SHA-256 {digest} */\n"
        )
    except IngotError as error:
        return f"/* {type(error).__name__}: {error} */\n"
    except Exception as error:  # a crash of one commit is a difference like any other
        return f"/* crash: {type(error).__name__}: {error} */\n"


def _options(given: dict[str, Any], target: str) -> Options:
    """JSON has lists where options have tuples."""
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    define = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.pop("define", {}).items()}
    return Options(target=target, define=define, **{"weights": "external", **plain})


def main() -> None:
    """Answer until there is no more request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not come between the answers
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        data = sys.stdin.buffer.read(request["bytes"])
        texts = {}
        for target in request["targets"]:
            texts[target] = emit(onnx.load_from_string(data), _options(request["options"], target))
        print(json.dumps(texts), file=answers, flush=True)


if __name__ == "__main__":
    main()
