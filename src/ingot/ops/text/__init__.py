"""Strings: the operators on them, regular expressions, and casts between text and numbers, exact both ways.

Importing this package reads every module and so registers its definitions.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
