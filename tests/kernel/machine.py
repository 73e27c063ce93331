"""Debian's kernel, its headers and a small userland under QEMU: what a module is tried in.

In: module directories, a shell script. Out: what the machine prints. The kernel image is unpacked, not
installed; its headers are installed, for their Makefiles name absolute paths. Both come by metapackage, so
they match.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

IMAGE = "linux-image-cloud-amd64"
SECONDS = 300
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
{script}
dmesg | sed 's/^/@dmesg /' | grep -v "0.0000\\|pci\\|ACPI"
poweroff -f
"""


def run(*command: str, cwd: Path | None = None, seconds: float = 600) -> str:
    """The output of a command. Raises RuntimeError, with what it said, where it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Machine:
    """A kernel to boot. `cache` keeps its image between runs."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.version = self._version()
        self.image = cache / "image" / "boot" / f"vmlinuz-{self.version}"
        self.headers = Path("/lib/modules") / self.version / "build"
        if not self.image.is_file():
            self._fetch()

    def _version(self) -> str:
        """The version that the metapackage stands for, such as 6.1.0-56-cloud-amd64."""
        lines = run("apt-cache", "depends", IMAGE).splitlines()
        return next(w.split("linux-image-")[1] for w in lines if "Depends: linux-image-" in w).strip()

    def _fetch(self) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        run("apt-get", "download", f"linux-image-{self.version}", cwd=self.cache)
        (package,) = self.cache.glob(f"linux-image-{self.version}_*.deb")
        run("dpkg", "-x", str(package), str(self.cache / "image"))

    def build(self, module: Path) -> Path:
        """Make a module directory; the module. Warnings are failures."""
        said = run("make", "-C", str(module), f"KDIR={self.headers}")
        if "warning:" in said:
            raise RuntimeError(f"{module.name} builds with warnings:\n{said}")
        return module / f"{module.name}.ko"

    def boot(self, folder: Path, script: str, files: Iterable[Path], cpu: str = "max", cpus: int = 2) -> str:
        """What the machine prints while it runs a script and then what its kernel has logged."""
        root = folder / "root"
        for name in ("bin", "proc", "sys", "dev"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "bin" / "busybox").write_bytes(Path("/bin/busybox").read_bytes())
        (root / "bin" / "busybox").chmod(0o755)
        (root / "init").write_text(INIT.format(script=script))
        (root / "init").chmod(0o755)
        for file in files:
            (root / file.name).write_bytes(file.read_bytes())
            (root / file.name).chmod(0o755)
        packed = folder / "initrd.gz"
        run("sh", "-c", f"find . | cpio -o -H newc -R 0:0 | gzip -1 > {packed}", cwd=root)
        return run(*self._qemu(packed, cpu, cpus), seconds=SECONDS).replace("\r", "")

    def _qemu(self, initrd: Path, cpu: str, cpus: int) -> Iterable[str]:
        options: Mapping[str, str] = {
            "-accel": "tcg",
            "-cpu": cpu,
            "-smp": str(cpus),
            "-m": "512M",
            "-kernel": str(self.image),
            "-initrd": str(initrd),
            "-append": "console=ttyS0 loglevel=4 panic=-1 quiet slub_debug=FZPU",
            "-display": "none",
            "-monitor": "none",
            "-serial": "stdio",
        }
        words = [word for pair in options.items() for word in pair]
        return ["qemu-system-x86_64", *words, "-no-reboot", "-nodefaults"]
