"""`--package kbuild`: a bundle as an out-of-tree module of the Linux kernel.

In: a model and how to compile it. Out: the files of a directory that `make` builds against the running
kernel.
"""

from ingot.packaging.kbuild.package import kbuild

__all__ = ["kbuild"]
