"""Asks the module: `ask.py PAGE...` with nine pages read one after the other.

Writes eight gaps to /dev/ingot-access and reads three probabilities from it. Nothing but Python is needed.
"""

import struct
import sys
from itertools import pairwise

DEVICE = "/dev/ingot-access"
CLASSES = ("in order", "in strides", "anywhere")


def main() -> None:
    """One question, one answer."""
    pages = [int(word) for word in sys.argv[1:]]
    if len(pages) != 9:
        raise SystemExit("usage: ask.py PAGE PAGE PAGE PAGE PAGE PAGE PAGE PAGE PAGE")
    with open(DEVICE, "r+b", buffering=0) as device:
        device.write(struct.pack("8f", *(b - a for a, b in pairwise(pages))))
        answer = struct.unpack("3f", device.read(12))
    for name, probability in zip(CLASSES, answer, strict=True):
        print(f"{name:12}{probability:.4f}")


if __name__ == "__main__":
    main()
