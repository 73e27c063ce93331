"""`ingot targets` and `ingot ops`: what is supported."""

from __future__ import annotations

from ingot.cli import arguments as arg
from ingot.cli.show import report, table


def targets(as_json: arg.Json = False) -> None:
    """List what Ingot compiles for."""
    from ingot.targets.records import TARGETS, native
    from ingot.targets.toolchain import obstacle

    here = native().name
    data = [
        {
            "name": t.name,
            "description": t.description,
            "triple": t.triple,
            "vector_bytes": t.vector_bytes,
            "registers": t.registers,
            "endian": t.endian,
            "pointer_bytes": t.pointer_bytes,
            "native": t.name == here,
            "obstacle": obstacle(t),
        }
        for t in TARGETS.values()
    ]
    rows = [
        (
            f"{d['name']} (native)" if d["native"] else d["name"],
            d["description"],
            d["triple"],
            d["vector_bytes"] or "scalar",
            d["endian"],
            d["obstacle"] or "yes",
        )
        for d in data
    ]
    columns = ("target", "for", "triple", "vector bytes>", "endian", "runs here")
    report(data, as_json, table("Targets", columns, rows))


def ops(as_json: arg.Json = False) -> None:
    """List the operators Ingot compiles."""
    from ingot.inspect.operators import supported

    found = supported()
    data = [{"domain": o.domain, "name": o.name, "opsets": list(o.opsets), "how": o.how} for o in found]
    rows = [(o.domain or "onnx", o.name, ", ".join(map(str, o.opsets)), o.how) for o in found]
    title = f"{len(found)} operators"
    report(data, as_json, table(title, ("domain", "operator", "from opset", "how"), rows))
