"""Atheris looks for cases that reach new code of one reader. Started by `hunt`, in a process of its own.

python -m tests.fuzz.guided READER SECONDS FOLDER SEED

FOLDER/corpus grows by what reached something new, FOLDER/wrong gets each finding once, FOLDER/count says
how many cases were run. libFuzzer, under Atheris, ends the process at the end of the time, and at a case that
takes ten seconds or 3 GB.
"""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ingot"]):
    import ingot.data.arrays
    import ingot.driver
    import ingot.frontends.tensorflow  # noqa: F401  (what is imported first here is what coverage sees)
from tests.fuzz.cage import SECONDS, kept
from tests.fuzz.readers import READERS, outcome

MEGABYTES = 3072  # with what the process has from the beginning
LARGEST = 1 << 17


def main(name: str, seconds: str, folder: Path, seed: str) -> None:
    reader, counted, seen = READERS[name], 0, set[str]()
    room = Path(tempfile.mkdtemp(prefix="ingot-"))

    def one(data: bytes) -> None:
        nonlocal counted
        counted += 1
        if counted % 50 == 0:
            (folder / "count").write_text(str(counted))
        said = outcome(reader, reader.place(room, data))
        if said not in ("read", "refused") and said not in seen:
            seen.add(said)
            stem = hashlib.sha256(data).hexdigest()[:12]
            (folder / "wrong" / stem).write_bytes(data)
            (folder / "wrong" / f"{stem}.txt").write_text(said)

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        made = reader.mutate(data, random.Random(seed))
        return made if len(made) <= size else atheris.Mutate(data, size)

    for part in ("corpus", "wrong"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for i, known in enumerate((*reader.seeds(), *(p.read_bytes() for p in kept(name)))):
        (folder / "corpus" / f"seed{i}").write_bytes(known)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limits = (f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}")
    more = (f"-seed={seed}", f"-max_len={LARGEST}", f"-artifact_prefix={folder}/wrong/", "-close_fd_mask=3")
    atheris.Setup([sys.argv[0], *limits, *more, str(folder / "corpus")], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
