"""How much memory there is for what a fit can do without."""

from pathlib import Path

UNKNOWN = 2.0**32  # where the system does not say


def available():
    """Bytes that this process may still take before the machine, or its container, has none."""
    found = [_of_machine(), _of_container()]
    return min([size for size in found if size is not None], default=UNKNOWN)


def _of_machine():
    for line in _lines("/proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024.0 * float(value.split()[0])
    return None


def _of_container():
    """Bytes that a control group of Linux leaves; None where it sets no limit."""
    folder = "/sys/fs/cgroup/memory"
    for names in ("memory.max", "memory.current"), ("/limit_in_bytes", "/usage_in_bytes"):
        base = "/sys/fs/cgroup/" if names[0] == "memory.max" else f"{folder}/memory."
        values = [_lines(base + name.lstrip("/")) for name in names]
        if all(value and value[0].isdigit() for value in values):
            limit, usage = (float(value[0]) for value in values)
            return max(limit - usage, 0.0)
    return None


def _lines(path):
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
