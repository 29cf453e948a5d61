"""Kernels that read columns of genotypes, four of which are in a byte (`genotypes`)."""

import numpy as np

from ..._compile import device, kernel

COUNTED = 2**13  # bytes, whose counts stay below 2^16
LANES, NEAR_BYTES = 512, 2**12  # bytes that are summed side by side, and whose numbers stay near
TOGETHER = 64  # columns; more would read a file in strides


@device
def _code(packed, i):
    """Code of row i."""
    return (packed[i >> 2] >> np.uint8(2 * (i & 3))) & np.uint8(3)


@kernel
def count_codes(packed, n_rows, counts):
    """Add how many rows have each code; of a byte four counts are looked up, 16 bits each."""
    of_byte = np.zeros(256, np.uint64)
    for byte in range(256):
        for q in range(4):
            of_byte[byte] += np.uint64(1) << np.uint64(16 * ((byte >> (2 * q)) & 3))
    n_whole = n_rows // 4
    for a in range(len(packed)):
        for first in range(0, n_whole, COUNTED):
            total = np.uint64(0)
            for k in range(first, min(first + COUNTED, n_whole)):
                total += of_byte[packed[a, k]]
            for code in range(4):
                counts[a, code] += (total >> np.uint64(16 * code)) & np.uint64(2**16 - 1)
        for i in range(4 * n_whole, n_rows):
            counts[a, _code(packed[a], i)] += 1


@kernel
def add_sums_of_genotypes(packed, columns, of_code, p0, p1, p2, p3, out):
    """Add sums of columns times numbers of rows: ``pq[k]`` is that of row 4k + q.

    Some columns at a time, and of these some bytes, so that numbers stay in a near cache. Every
    byte of LANES adds to a sum of its own: compilers then take several at once.
    """
    lanes, n_bytes = np.empty(LANES), len(p0)
    for low in range(0, len(columns), TOGETHER):
        for start in range(0, n_bytes, NEAR_BYTES):
            stop = min(start + NEAR_BYTES, n_bytes)
            for a in range(low, min(low + TOGETHER, len(columns))):
                lanes[:] = 0.0
                for i in range(start, stop, LANES):
                    j, own = min(i + LANES, stop), packed[columns[a]]
                    _add_bytes(own[i:j], of_code[a], p0[i:j], p1[i:j], p2[i:j], p3[i:j], lanes)
                out[a] += _total(lanes)


@device
def _add_bytes(packed, value, p0, p1, p2, p3, lanes):
    """Add entries times numbers of rows, four a byte."""
    v0, v1, v2, v3 = value[0], value[1], value[2], value[3]
    for k in range(len(packed)):
        byte = packed[k]
        found = p0[k] * _entry(byte, 0, v0, v1, v2, v3)
        found += p1[k] * _entry(byte, 2, v0, v1, v2, v3)
        found += p2[k] * _entry(byte, 4, v0, v1, v2, v3)
        found += p3[k] * _entry(byte, 6, v0, v1, v2, v3)
        lanes[k] += found


@device
def _entry(byte, first, v0, v1, v2, v3):
    """Value of the two bits from the first one on, without a lookup."""
    is_odd = byte & np.uint8(1 << first)
    low, high = v1 if is_odd else v0, v3 if is_odd else v2
    return high if byte & np.uint8(2 << first) else low


@device
def _total(lanes):
    """Sum of numbers, in four sums that do not wait for each other."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for k in range(0, len(lanes), 4):
        s0, s1 = s0 + lanes[k], s1 + lanes[k + 1]
        s2, s3 = s2 + lanes[k + 2], s3 + lanes[k + 3]
    return (s0 + s1) + (s2 + s3)


@kernel
def add_by_label(packed, columns, of_code, numbers, label, out):
    """Add sums of columns times numbers of rows by labels of rows."""
    for a in range(len(columns)):
        own, value = packed[columns[a]], of_code[a]
        for i in range(len(numbers)):
            out[a, label[i]] += value[_code(own, i)] * numbers[i]


@kernel
def add_genotypes(packed, columns, of_code, out):
    """Add numbers of codes to numbers of rows."""
    for a in range(len(columns)):
        own, value = packed[columns[a]], of_code[a]
        for i in range(len(out)):
            out[i] += value[_code(own, i)]


@kernel
def write_genotypes(packed, columns, of_code, rows, out):
    """Write columns of some rows."""
    for a in range(len(columns)):
        own, value = packed[columns[a]], of_code[a]
        for i in range(len(rows)):
            out[a, i] = value[_code(own, rows[i])]
