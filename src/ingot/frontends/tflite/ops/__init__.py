"""TFLite's operators, a short mapping each, in modules by family. Importing this fills the table."""

from ingot.frontends.tflite.ops import (  # noqa: F401  (these fill the table)
    activation,
    arithmetic,
    control,
    detection,
    elementwise,
    fourier,
    landmarks,
    matrix,
    moving,
    recurrent,
    reduction,
    signal,
    window,
)
from ingot.frontends.tflite.ops.table import OPS as OPS
