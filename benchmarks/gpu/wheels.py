"""Packages for a machine without a network, in pieces that can travel.

Here: ``python -m benchmarks.gpu.wheels pack FOLDER`` downloads the wheels of `wheels.txt` and packs
each again, smaller, into FOLDER/piece-1 and so on.  There: ``python benchmarks/gpu/wheels.py
install FOLDER TARGET`` unpacks what is missing into TARGET, which then belongs on PYTHONPATH.  It
needs nothing but Python, and may be called for one piece after the other.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

LIST = Path(__file__).with_name("wheels.txt")
PIECE_BYTES = 60 * 2**20  # 64 travel in a call, with the source tree
PYTHON = "3.12"
PLATFORMS = [f"manylinux_2_{k}_x86_64" for k in (34, 28, 27, 26, 24, 17, 12, 5)]
PLATFORMS += [f"manylinux{year}_x86_64" for year in (2014, 2010, 1)]
SKIPPED = ("nvidia/cu13/nvvm/bin/", "nvidia/cu13/include/")  # a compiler that nobody calls
SKIPPED_PARTS = (".alt.so", "_static.a")


def read_list(path=LIST):
    """Piece -> packages with versions."""
    pieces = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            piece, package = line.split()
            pieces.setdefault(int(piece), []).append(package)
    return pieces


def pack(folder, pieces=None):
    """Download and pack; the bytes of every piece."""
    sizes = {}
    for number, packages in (pieces or read_list()).items():
        target = Path(folder, f"piece-{number}")
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as downloads:
            download(packages, downloads)
            for wheel in sorted(Path(downloads).glob("*.whl")):
                repack(wheel, target)
        sizes[number] = sum(path.stat().st_size for path in target.iterdir())
        print(
            f"{target.name}: {sizes[number] / 2**20:.1f} MiB, {len(packages)} packages", flush=True
        )
        if sizes[number] > PIECE_BYTES:
            raise SystemExit(f"{target.name} is larger than {PIECE_BYTES / 2**20:.0f} MiB")
    return sizes


def download(packages, folder):
    """Wheels for the machine, whatever this one is."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run([*command, *packages], check=True)


def repack(wheel, folder):
    """A wheel's files in a tar archive, which xz makes smaller than zip; named as the wheel is."""
    name, number = wheel.name.split("-")[:2]
    path = Path(folder, f"{name}-{number}.tar.xz")
    with zipfile.ZipFile(wheel) as given, tarfile.open(path, "w:xz") as packed:
        for entry in given.infolist():
            place = _place_of(entry.filename)
            if entry.is_dir() or place is None:
                continue
            member, content = tarfile.TarInfo(place), given.read(entry)
            member.size, member.mode = len(content), (entry.external_attr >> 16) & 0o777 or 0o644
            packed.addfile(member, io.BytesIO(content))
    return path


def _place_of(name):
    """Where an entry of a wheel is installed; None: nowhere."""
    if name.startswith(SKIPPED) or any(part in name for part in SKIPPED_PARTS):
        return None
    first, *rest = PurePosixPath(name).parts
    if first.endswith(".data"):  # the scheme's folders
        return str(PurePosixPath(*rest[1:])) if rest[0] in ("purelib", "platlib") else None
    return name


def install(folder, target, over=False):
    """Unpack the archives below a folder whose packages are missing; their names.

    `over` takes all, whatever is there.
    """
    Path(target).mkdir(parents=True, exist_ok=True)
    installed = []
    for path in sorted(Path(folder).rglob("*.tar.xz")):
        name, number = path.name.removesuffix(".tar.xz").split("-")
        there = _version_of(name)
        if there is not None and not over:
            print(f"{name} {there} is there")
            continue
        with tarfile.open(path) as packed:
            packed.extractall(target, filter="data")
        installed.append(name)
        print(f"{name} {number} unpacked")
    return installed


def _version_of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_pack = commands.add_parser("pack", help="download wheels and pack them in pieces")
    of_pack.add_argument("folder", type=Path)
    of_pack.add_argument("--pieces", type=int, nargs="*", help="numbers; by default all")
    of_install = commands.add_parser("install", help="unpack what is missing")
    of_install.add_argument("folder", type=Path)
    of_install.add_argument("target", type=Path)
    of_install.add_argument("--over", action="store_true", help="what is there, too")
    options = parser.parse_args(arguments)
    if options.command == "install":
        install(options.folder, options.target, options.over)
        return
    every = read_list()
    pack(options.folder, {number: every[number] for number in options.pieces or every})


if __name__ == "__main__":
    main()
