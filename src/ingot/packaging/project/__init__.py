"""`--package KIND`: a bundle as a directory that the users of an ecosystem drop in and build.

In: a model, options, a kind of `kinds.py`. Out: files, from the templates of the kind and one description of
the bundle (`description.py`). A kind is one record and one folder of templates.
"""

from ingot.packaging.project.kinds import KINDS
from ingot.packaging.project.package import project

__all__ = ["KINDS", "project"]
