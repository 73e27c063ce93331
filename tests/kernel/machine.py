"""Debian's kernel, its headers and a small userland under QEMU: what a module is tried in.

In: module directories, a shell script. Out: what the machine prints. The kernel image is unpacked, not
installed; its headers are installed, for their Makefiles name absolute paths. Both come by metapackage, so
they match. The image and what is built are kept between runs, by a hash of what they are made of.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

IMAGE = "linux-image-cloud-amd64"
PROGRAMS = ("apt-cache", "apt-get", "dpkg", "gcc", "make", "cpio", "busybox", "qemu-system-x86_64")
SECONDS = 600
COUNTED = ("-smp", "1", "-icount", "shift=0")
"""One CPU whose clock is its instructions, a nanosecond each: times are exact, and the same in every run."""
UNKIND = "slub_debug=FZPU init_on_alloc=0 init_on_free=0"
"""Memory of the slabs is filled with a poison, and pages keep what the last one who had them left: dirt.c."""
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
{script}
dmesg | sed 's/^/@dmesg /' | sed -n '/out-of-tree/,$p'
poweroff -f
"""


class MissingError(Exception):
    """What this machine would need to boot a kernel."""


def run(*command: str, cwd: Path | None = None, seconds: float = 600) -> str:
    """The output of a command. Raises RuntimeError, with what it said, where it fails or does not end."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=seconds, errors="replace"
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)}\nhas not ended in {seconds} s\n{said[-4000:]}") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Machine:
    """A kernel to boot. Raises MissingError where it cannot be had."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        missing = [p for p in PROGRAMS if not shutil.which(p)]
        if missing:
            raise MissingError(
                f"{', '.join(missing)} missing: tools/debian-packages.sh tools/kernel-packages.txt"
            )
        self.version = self._version()
        self.image = cache / "image" / "boot" / f"vmlinuz-{self.version}"
        self.headers = Path("/lib/modules") / self.version / "build"
        if not self.headers.is_dir():
            raise MissingError(f"no {self.headers}: apt-get install {IMAGE.replace('image', 'headers')}")
        if not self.image.is_file():
            self._fetch()

    def _version(self) -> str:
        """The version that the metapackage stands for, such as 6.1.0-56-cloud-amd64."""
        lines = subprocess.run(
            ["apt-cache", "depends", IMAGE], capture_output=True, text=True
        ).stdout.splitlines()
        found = [w.split("linux-image-")[1].strip() for w in lines if "Depends: linux-image-" in w]
        if not found:
            raise MissingError(f"apt knows no {IMAGE}")
        return found[0]

    def _fetch(self) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        try:
            run("apt-get", "download", f"linux-image-{self.version}", cwd=self.cache)
        except RuntimeError as error:
            raise MissingError(f"the kernel image cannot be downloaded: {error}") from None
        (package,) = self.cache.glob(f"linux-image-{self.version}_*.deb")
        run("dpkg", "-x", str(package), str(self.cache / "image"))

    def build(self, module: Path, uses: Sequence[Path] = (), flags: str = "") -> Path:
        """Make a module directory, whose module has its name; `uses` are directories whose symbols it needs,
        `flags` are for the compiler.

        Gives the directory of what was built. Warnings are failures.
        """
        content = [
            module.name,
            flags,
            self.version,
            run("gcc", "--version"),
            *(self._kept(u).name for u in uses),
        ]
        files = sorted(p for p in module.iterdir() if p.is_file())
        content += [f"{p.name} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in files]
        kept = self.cache / "modules" / hashlib.sha256("\n".join(content).encode()).hexdigest()[:20]
        if not (kept / f"{module.name}.ko").is_file():
            symbols = " ".join(str(self._kept(u) / "Module.symvers") for u in uses)
            words = (f"KDIR={self.headers}", f"KBUILD_EXTRA_SYMBOLS={symbols}", f"KCFLAGS={flags}")
            said = run("make", "-C", str(module), *words)
            if "warning:" in said.lower():
                raise RuntimeError(f"{module.name} builds with warnings:\n{said}")
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(module / "Module.symvers", kept)
            run("strip", "--strip-debug", "-o", str(kept / "part"), str(module / f"{module.name}.ko"))
            (kept / "part").rename(kept / f"{module.name}.ko")
        (module / "built").write_text(str(kept))
        return kept / f"{module.name}.ko"

    def _kept(self, module: Path) -> Path:
        return Path((module / "built").read_text())

    def boot(self, folder: Path, script: str, files: Iterable[Path], cpu: str, cpus: Sequence[str]) -> str:
        """What the machine prints while it runs a script and then what its kernel has logged."""
        root = folder / "root"
        for name in ("bin", "proc", "sys", "dev"):
            (root / name).mkdir(parents=True, exist_ok=True)
        busybox = shutil.which("busybox")
        assert busybox is not None
        (root / "init").write_text(INIT.format(script=script))
        for source, place in [(Path(busybox), root / "bin"), *((file, root) for file in files)]:
            shutil.copy(source, place / source.name)
            (place / source.name).chmod(0o755)
        (root / "init").chmod(0o755)
        packed = folder / "initrd.gz"
        run("sh", "-c", f"find . | cpio -o -H newc -R 0:0 | gzip -1 > {packed}", cwd=root)
        return run(*self._qemu(packed, cpu), *cpus, seconds=SECONDS).replace("\r", "")

    def _qemu(self, initrd: Path, cpu: str) -> Iterable[str]:
        options: Mapping[str, str] = {
            "-accel": "tcg",
            "-cpu": cpu,
            "-m": "512M",
            "-kernel": str(self.image),
            "-initrd": str(initrd),
            "-append": f"console=ttyS0 loglevel=4 panic=-1 quiet {UNKIND}",
            "-display": "none",
            "-monitor": "none",
            "-serial": "stdio",
        }
        words = [word for pair in options.items() for word in pair]
        return ["qemu-system-x86_64", *words, "-no-reboot", "-nodefaults"]
