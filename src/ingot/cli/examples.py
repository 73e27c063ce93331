"""Examples under the help text of a command; tests run those that need nothing but a model."""

from __future__ import annotations

EXAMPLES = {
    "init": ("ingot init model.onnx --target cortex-m4",),
    "compile": (
        "ingot compile model.onnx --target cortex-m4 --max-ram 96K",
        "ingot compile model.onnx --define N=1..8 --api direct",
        "ingot compile model.onnx --package cmake -o package",
    ),
    "run": (
        "ingot run model.onnx --input x=x.npy",
        "ingot run build --image cat.png --top 5 --labels names.txt",
    ),
    "verify": ("ingot verify model.onnx --layers", "ingot verify build --model model.onnx"),
    "compress": ("ingot compress model.onnx --target-ratio 20x",),
    "profile": ("ingot profile model.onnx --inputs samples.npz",),
    "evaluate": ("ingot evaluate model.onnx model.int8.onnx --inputs samples.npz",),
    "quantize": ("ingot quantize model.onnx --profile profile.yaml",),
    "sensitivity": (
        "ingot sensitivity model.onnx",
        "ingot sensitivity model.onnx --data samples.npz --allow 0.1",
    ),
    "pareto": ("ingot pareto model.onnx --evaluate samples.npz --ratios 4x,8x,16x --bits 3",),
    "inspect": (
        "ingot inspect model.onnx",
        "ingot inspect model.onnx --stage plan --svg arena.svg",
        "ingot inspect build",
    ),
    "report": ("ingot report model.onnx -o report.html --against math=exact",),
    "asm": ("ingot asm model.onnx --target cortex-m4",),
    "audit": ("ingot audit build",),
    "bench": ("ingot bench model.onnx --against onnxruntime --profile",),
    "tune": ("ingot tune model.onnx --seconds 60",),
    "targets": ("ingot targets stm32f4", "ingot targets --html targets.html"),
    "ops": ("ingot ops --html operators.html",),
}


def epilog(command: str) -> str | None:
    """Return the examples of a command, each in a line of its own."""
    lines = EXAMPLES.get(command)
    return None if lines is None else "\n\n".join(("Examples:", *(f"  {line}" for line in lines)))
