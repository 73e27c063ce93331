"""Debian's kernel, its headers and a small userland under QEMU: what a module is tried in.

In: module directories, a shell script. Out: what the machine prints. The kernel image is unpacked, not
installed; its headers are installed, for their Makefiles name absolute paths. Both come by metapackage, so
they match. The image and what is built are kept between runs, by a hash of what they are made of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

PROGRAMS = ("apt-cache", "apt-get", "dpkg", "gcc", "make", "cpio", "busybox", "qemu-system-x86_64")
SECONDS = 600
OF_ARM = ("aarch64-linux-gnu-gcc", "qemu-system-aarch64")
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


def run(
    *command: str, cwd: Path | None = None, seconds: float = 600, env: Mapping[str, str] | None = None
) -> str:
    """The output of a command. Raises RuntimeError, with what it said, where it fails or does not end."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=seconds, errors="replace", env=env
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)}\nhas not ended in {seconds} s\n{said[-4000:]}") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Machine:
    """A kernel of this processor to boot. Raises MissingError where it cannot be had."""

    programs: tuple[str, ...] = PROGRAMS
    processor = "amd64"
    cross: tuple[str, ...] = ()
    tools = ""
    qemu: tuple[str, ...] = ("qemu-system-x86_64",)
    console = "ttyS0"

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        missing = [p for p in self.programs if not shutil.which(p)]
        if missing:
            raise MissingError(
                f"{', '.join(missing)} missing: tools/debian-packages.sh tools/kernel-packages.txt"
            )
        self.metapackage = f"linux-image-cloud-{self.processor}"
        self.version = self._version()
        self.image = cache / "image" / "boot" / f"vmlinuz-{self.version}"
        if not self.image.is_file():
            self._fetch(f"linux-image-{self.version}")
        self.headers = self._headers()
        self.busybox = self._busybox()

    def _headers(self) -> Path:
        headers = Path("/lib/modules") / self.version / "build"
        if not headers.is_dir():
            raise MissingError(
                f"no {headers}: apt-get install {self.metapackage.replace('image', 'headers')}"
            )
        return headers

    def _busybox(self) -> Path:
        found = shutil.which("busybox")
        assert found is not None
        return Path(found)

    def _version(self) -> str:
        """The version that the metapackage stands for, such as 6.1.0-56-cloud-amd64."""
        lines = subprocess.run(
            ["apt-cache", "depends", self.metapackage], capture_output=True, text=True, env=self._apt()
        ).stdout.splitlines()
        found = [w.split("linux-image-")[1].strip() for w in lines if "Depends: linux-image-" in w]
        if not found:
            raise MissingError(f"apt knows no {self.metapackage}")
        return found[0]

    def _apt(self) -> dict[str, str]:
        """The environment of apt."""
        return dict(os.environ)

    def _fetch(self, name: str) -> None:
        """Download a package and unpack it, beside the image."""
        self.cache.mkdir(parents=True, exist_ok=True)
        try:
            run("apt-get", "download", name, cwd=self.cache, env=self._apt())
        except RuntimeError as error:
            raise MissingError(f"{name} cannot be downloaded: {error}") from None
        (package,) = self.cache.glob(f"{name}_*.deb")
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
            run(f"{self.tools}gcc", "--version"),
            *(self._kept(u).name for u in uses),
        ]
        files = sorted(p for p in module.iterdir() if p.is_file())
        content += [f"{p.name} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in files]
        kept = self.cache / "modules" / hashlib.sha256("\n".join(content).encode()).hexdigest()[:20]
        if not (kept / f"{module.name}.ko").is_file():
            symbols = " ".join(str(self._kept(u) / "Module.symvers") for u in uses)
            words = (
                f"KDIR={self.headers}",
                f"KBUILD_EXTRA_SYMBOLS={symbols}",
                f"KCFLAGS={flags}",
                *self.cross,
            )
            said = run("make", "-C", str(module), *words)
            if "warning:" in said.lower():
                raise RuntimeError(f"{module.name} builds with warnings:\n{said}")
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(module / "Module.symvers", kept)
            run(
                f"{self.tools}strip",
                "--strip-debug",
                "-o",
                str(kept / "part"),
                str(module / f"{module.name}.ko"),
            )
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
        (root / "init").write_text(INIT.format(script=script))
        for source, place in [(self.busybox, root / "bin"), *((file, root) for file in files)]:
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
            "-append": f"console={self.console} loglevel=4 panic=-1 quiet {UNKIND}",
            "-display": "none",
            "-monitor": "none",
            "-serial": "stdio",
        }
        words = [word for pair in options.items() for word in pair]
        return [*self.qemu, *words, "-no-reboot", "-nodefaults"]


class Arm64(Machine):
    """A kernel of AArch64, emulated. Its packages are only unpacked, and apt gets lists of its own, so that
    this machine's architectures stay as they are; the programs of its headers are this machine's.
    """

    programs = (*PROGRAMS, *OF_ARM)
    processor = "arm64"
    tools = "aarch64-linux-gnu-"
    cross = ("ARCH=arm64", f"CROSS_COMPILE={tools}")
    qemu = ("qemu-system-aarch64", "-M", "virt")
    console = "ttyAMA0"

    def _apt(self) -> dict[str, str]:
        settings = self.cache / "apt.conf"
        if not settings.is_file():
            self._list_packages(settings)
        return {**os.environ, "APT_CONFIG": str(settings)}

    def _list_packages(self, settings: Path) -> None:
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.cache / folder).mkdir(parents=True, exist_ok=True)
        status, part = self.cache / "state" / "status", self.cache / "apt.part"
        status.touch()
        part.write_text(
            f'APT::Architecture "{self.processor}";\nAPT::Architectures {{ "{self.processor}"; }};\n'
            f'Dir::State "{self.cache}/state";\nDir::State::status "{status}";\n'
            f'Dir::Cache "{self.cache}/cache";\n'
            'APT::Sandbox::User "root";\nAcquire::Retries "3";\n'
        )
        try:
            run("apt-get", "update", env={**os.environ, "APT_CONFIG": str(part)})
        except RuntimeError as error:
            raise MissingError(f"no lists of packages for {self.processor}: {error}") from None
        part.rename(settings)

    def _headers(self) -> Path:
        here = self.cache / "image" / "usr"
        headers = here / "src" / f"linux-headers-{self.version}"
        if not headers.is_dir():
            self._fetch(f"linux-headers-{self.version}")
        programs = f"linux-kbuild-{'.'.join(self.version.split('.')[:2])}"
        if not (Path("/usr/lib") / programs).is_dir():
            raise MissingError(f"no /usr/lib/{programs}: apt-get install linux-headers-cloud-amd64")
        if not (headers / "scripts").is_dir():
            (here / "lib").mkdir(exist_ok=True)
            (here / "lib" / programs).symlink_to(Path("/usr/lib") / programs)
        return headers

    def _busybox(self) -> Path:
        found = self.cache / "image" / "bin" / "busybox"
        if not found.is_file():
            self._fetch("busybox-static")
        return found
