"""Damaged files of compiled code: every call must be right all the same, and mend the files.

    python -m tests.attacks.cache_damage --attempts 200 --seed 1

A miniature module lies in a temporary folder, with its compiled code beside it.  An attempt damages
a file, or begins under circumstances in which files cannot be read or written.  Then a process
calls all kernels and must compile again what was damaged; one more must find everything on disk,
in no more files than there were.  Each process is a fork of one that has compiled nothing of the
miniature, so that damaged machine code would really run, and take only its own process with it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import numba

MINIATURE = """
from typing import NamedTuple

from sksurvgpu._compile import device, kernel


class Pair(NamedTuple):
    first: float
    second: int


@device
def triple(x):
    return 3 * x


@kernel
def add(x, y):
    return x + triple(y)


@kernel
def scale(pair):
    return Pair(triple(pair.first), pair.second)
"""
FROM_DISK, COMPILED, WRONG = 0, 3, 4  # how a process ends
NOBODY = 65534


def truncate(path, rng):
    content = path.read_bytes()
    size = rng.randrange(len(content))
    path.write_bytes(content[:size])
    return f"cut to {size} of {len(content)} bytes"


def empty(path, rng):
    path.write_bytes(b"")
    return "no byte left"


def zero(path, rng):
    size = path.stat().st_size
    path.write_bytes(bytes(size))
    return f"{size} zeros"


def scramble(path, rng):
    size = rng.randrange(1, 2 * path.stat().st_size)
    path.write_bytes(rng.randbytes(size))
    return f"{size} random bytes"


def flip(path, rng):
    content = bytearray(path.read_bytes())
    position, bit = rng.randrange(len(content)), rng.randrange(8)
    content[position] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {position} of {len(content)} flipped"


def overwrite(path, rng):
    content = bytearray(path.read_bytes())
    begin = rng.randrange(len(content))
    length = rng.randrange(1, len(content) - begin + 1)
    content[begin : begin + length] = bytes(255 - byte for byte in content[begin : begin + length])
    path.write_bytes(content)
    return f"{length} bytes from {begin} on inverted"


def append(path, rng):
    size = rng.randrange(1, 100)
    path.write_bytes(path.read_bytes() + rng.randbytes(size))
    return f"{size} bytes appended"


def delete(path, rng):
    path.unlink()
    return "deleted"


def exchange(path, rng):
    other = rng.choice([other for other in code_files(path.parent) if other != path])
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"exchanged with {other.name}"


def become_folder(path, rng):
    path.unlink()
    path.mkdir()
    return "a folder in its place"


DAMAGES = [
    truncate,
    empty,
    zero,
    scramble,
    flip,
    overwrite,
    append,
    delete,
    exchange,
    become_folder,
]


def other_numba(folder):
    numba.__version__ = "0.0"


def full_disk(folder):
    shutil.rmtree(folder / "__pycache__")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def no_right_to_write(folder):
    shutil.rmtree(folder / "__pycache__")
    folder.chmod(0o555)
    if not os.geteuid():
        os.setuid(NOBODY)  # root may always write
    os.environ["HOME"] = str(folder)


def lost_folder(folder):
    shutil.rmtree(folder / "__pycache__")


def file_for_folder(folder):
    lost_folder(folder)
    (folder / "__pycache__").write_bytes(b"")


def nothing(folder):
    pass


# (before kernels are made, before they are called, number of processes at once)
CIRCUMSTANCES = {
    "files of another version of Numba": (other_numba, nothing, 1),
    "a full disk": (full_disk, nothing, 1),
    "no right to write": (no_right_to_write, nothing, 1),
    "a folder that vanishes": (nothing, lost_folder, 1),
    "a file in place of the folder": (nothing, file_for_folder, 1),
    "three processes at once, without files": (nothing, nothing, 3),
}


def code_files(cache):
    return sorted(path for path in cache.iterdir() if path.suffix in (".nbi", ".nbc"))


def call_kernels(folder, before=nothing, between=nothing):
    """Call all kernels of the miniature in this process; say how it went."""
    before(folder)
    # Only the package's own code is kept on disk: the miniature takes a name in it.
    spec = importlib.util.spec_from_file_location("sksurvgpu.miniature", folder / "miniature.py")
    miniature = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(miniature)
    between(folder)
    scaled = miniature.scale(miniature.Pair(0.5, 2))
    total = miniature.add(1, 2)
    if type(scaled) is not miniature.Pair or scaled != (1.5, 2) or total != 7:
        print(f"        wrong: {scaled}, {total}")
        return WRONG
    kernels = miniature.add, miniature.scale
    return COMPILED if any(kernel.stats.cache_misses for kernel in kernels) else FROM_DISK


def start(*arguments):
    """Fork a process that calls all kernels, and ends without a word to its parent's exit hooks."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    status = WRONG
    try:
        status = call_kernels(*arguments)
    except BaseException as error:
        print(f"        {traceback.format_exception_only(error)[-1].strip()[:200]}")
    finally:
        sys.stdout.flush()
        os._exit(status)


def end(process):
    """Exit status of a process, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def damage_file(folder, damage, rng):
    """Damage one file of a whole cache; return what was done and what must not happen after."""
    path = rng.choice(code_files(folder / "__pycache__"))
    print(f"{path.name}: {damage(path, rng)}")
    failures = [] if (status := end(start(folder))) == COMPILED else [f"damage ends in {status}"]
    if path.is_dir():
        path.rmdir()
        end(start(folder))
    return failures


def call_under(folder, name):
    """Call all kernels under difficult circumstances, then under good ones."""
    print(name)
    before, between, n_processes = CIRCUMSTANCES[name]
    if n_processes > 1:
        shutil.rmtree(folder / "__pycache__")
    processes = [start(folder, before, between) for _ in range(n_processes)]
    statuses = [end(process) for process in processes]
    folder.chmod(0o755)
    if (folder / "__pycache__").is_file():
        (folder / "__pycache__").unlink()
    end(start(folder))
    return [f"processes end in {statuses}"] if {*statuses} - {COMPILED, FROM_DISK} else []


def attempt(number, folder, rng):
    """Make one attempt; the kinds take turns, the rest is drawn."""
    kinds = [*DAMAGES, *CIRCUMSTANCES]
    kind = kinds[number % len(kinds)]
    print(f"{number:5d} ", end="")
    failures = damage_file(folder, kind, rng) if callable(kind) else call_under(folder, kind)
    if (status := end(start(folder))) != FROM_DISK:
        failures.append(f"not mended: the next process ends in {status}")
    return failures


def fill(folder):
    """Make the miniature with whole files of compiled code; return how many."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    (folder / "miniature.py").write_text(MINIATURE)
    if (status := end(start(folder))) != COMPILED or (status := end(start(folder))) != FROM_DISK:
        raise RuntimeError(f"undamaged files are not used: a process ends in {status}")
    return len(code_files(folder / "__pycache__"))


def attack(n_attempts, seed, root):
    """Damage files again and again; return the attempts that failed."""
    sys.dont_write_bytecode = True
    # Numba's first compilation in a process is slow: once, for all forks.
    numba.njit(lambda x: x + 1.0)(1.0)
    rng, folder, failed = random.Random(seed), root / "code", []
    n_files = fill(folder)
    for number in range(n_attempts):
        failures = attempt(number, folder, rng)
        n_now = len(list((folder / "__pycache__").iterdir()))
        if n_now > n_files:
            failures.append(f"{n_files} files have become {n_now}")
        for failure in failures:
            print(f"        FAILED: {failure}")
        if failures:
            failed.append(number)
            n_files = fill(folder)
    print(f"{n_attempts} attempts with seed {seed}: {len(failed)} failed {failed or ''}")
    return failed


def main(arguments=None):
    """Read the command line, attack, and exit with 1 if an attempt failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)  # also for processes that give up their rights
        return bool(attack(options.attempts, options.seed, Path(root)))


if __name__ == "__main__":
    sys.exit(main())
