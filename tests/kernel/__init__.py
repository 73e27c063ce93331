"""`make kernel`: modules built against Debian's kernel and tried in it, under QEMU."""
