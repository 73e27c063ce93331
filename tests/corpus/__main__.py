"""Prints what compiling the corpus makes: the SHA-256 of every file of every bundle, as JSON."""

from __future__ import annotations

import hashlib
import json

import ingot
from tests.corpus import CASES

TARGET = "x86-64-v3"


def digests() -> dict[str, dict[str, str]]:
    """Hashes by model and file."""
    found = {}
    for case in CASES:
        made = ingot.compile(case.model, target=TARGET, name=case.name, define=case.define)
        found[case.name] = {n: hashlib.sha256(data).hexdigest() for n, data in made.files.items()}
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
