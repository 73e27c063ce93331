"""`make replay BASE=COMMIT`: the C of a corpus as two commits emit it, and what differs.

`corpus` makes the models, `emit` is the process that prints their C with one commit's sources, `trees` finds
those sources and remembers what they emitted, `compare` tells which functions differ, `__main__` reports.
"""
