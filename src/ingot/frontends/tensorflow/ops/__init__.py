"""TensorFlow's operators, a short mapping each, in modules by family. Importing this fills the table."""

from ingot.frontends.tensorflow.ops import (  # noqa: F401
    arrays,
    cells,
    elementwise,
    fourier,
    linear,
    matrices,
    movement,
    reduce,
    resize,
    shapes,
    sound,
    window,
)
