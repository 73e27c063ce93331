"""What a bundle costs, as its manifest says. In: the manifest's content. Out: a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ingot.tables import Table, table
from ingot.targets.records import find

SCALAR, NAMED = 0.5, 3  # a kernel is scalar if more of its operations are; how many are named


def cost_table(manifest: Mapping[str, Any]) -> Table:
    """Return flash, RAM, stack and work, with what each is made of."""
    sizes, kernels, variants = manifest["sizes"], manifest["kernels"], manifest.get("variants")
    target = "+".join(variants or [manifest["target"]])
    stack = sizes["stack_bytes"]
    rows = [
        *_flash_rows(manifest),
        (
            "RAM (arena)",
            _bytes(sizes["arena_bytes"]),
            f"no plan needs less than {sizes['arena_bound_bytes']:,}",
        ),
        *_stream_rows(manifest),
        *_region_rows(manifest),
        ("stack", _bytes(stack), "unknown" if stack is None else ""),
        ("work", f"{sum(k['macs'] for k in kernels):,} MACs", f"in {calls_text(len(kernels))}"),
    ]
    if any(find(name).vector_bytes for name in target.split("+")):
        scalar = [k["name"] for k in kernels if k["scalar_share"] > SCALAR]
        named = ", ".join(scalar[:NAMED]) + (" ..." if scalar[NAMED:] else "")
        rows.append(("scalar kernels", len(scalar), named))
    return table(f"{manifest['name']} on {target}", ("", "cost>", "of which"), rows)


LEFT = {
    "float_layers": "layers left in floats",
    "expanded_layers": "layers whose encoded integers are stored as all elements",
}


def left_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """Return which layers `--activations int8` left in floats, and whose weights were expanded, and why;
    nothing where there are none.
    """
    found = {title: [(x["layer"], x["why"]) for x in manifest.get(key, ())] for key, title in LEFT.items()}
    return [table(title, ("layer", "because"), rows) for title, rows in found.items() if rows]


def calls_text(count: int) -> str:
    """A number of kernel calls, in words."""
    return "1 kernel call" if count == 1 else f"{count} kernel calls"


def _bytes(count: int | None) -> str:
    return "-" if count is None else f"{count:,} bytes"


def _flash_rows(manifest: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """What the object takes, and what the caller brings."""
    sizes, variants = manifest["sizes"], manifest.get("variants", ())
    weights = sizes["weights_bytes"]
    if manifest["weights"] == "external":
        yield "flash", _bytes(sizes["flash_bytes"]), f"code {sizes['code_bytes']:,}; no weights"
        yield "weights", _bytes(weights), f"the caller's, out of {manifest['name']}.weights.bin"
        return
    every = f" of {len(variants)} variants" if variants else ""
    yield "flash", _bytes(sizes["flash_bytes"]), f"weights {weights:,}, code {sizes['code_bytes']:,}{every}"


def _stream_rows(manifest: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """What layers that go row by row save, and cost."""
    whole = manifest["sizes"].get("arena_whole_bytes")
    streams = [k for k in manifest["kernels"] if "streamed" in k.get("generators", ())]
    if whole is not None:
        saved = f"the arena would take {whole:,} bytes; no MAC is computed twice"
        yield "row by row", f"{sum(len(k['nodes']) for k in streams)} nodes", saved


def _region_rows(manifest: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """RAM and flash by region."""
    for r in manifest.get("memory", ()):
        state = f", {r['state_bytes']:,} of state" if r["state_bytes"] else ""
        taken = r["arena_bytes"] + r["state_bytes"]
        yield f"RAM in {r['name']}", _bytes(taken), f"of {r['room_bytes']:,}{state}"
    for r in manifest.get("flash", ()):
        code = f", {r['code_bytes']:,} of code" if r["code_bytes"] else ""
        taken = r["weights_bytes"] + r["code_bytes"]
        yield f"flash in {r['name']}", _bytes(taken), f"of {r['room_bytes']:,}{code}"
