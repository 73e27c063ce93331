"""The operators of the domain ai.onnx.ml: trees, support vectors, linear models, encoders and scalers.

Importing this package reads every module and so registers its definitions.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
