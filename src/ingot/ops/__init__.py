"""One definition per operator, by family. Importing this package reads every module and so fills the
registry.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
