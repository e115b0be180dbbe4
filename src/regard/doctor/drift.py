"""Where the lines of two files stop belonging together.

The lengths of a text and of its translation go together. If a file has lost a line, all later lines have the lengths of
the lines before or after their partners. With s_k(i) = −|log length(a_{i+k}) − log length(b_i)|, the place p of a drift
by d lines is where

    Σ_{i<p} s_0(i) + Σ_{i≥p} s_d(i)

is largest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

MOST = 8  # lines by which files with equally many lines are compared
GAIN = 40.0  # by which a shifted stretch must fit better, for files with equally many lines


def first_drift(first: Sequence[int], second: Sequence[int]) -> int | None:
    """The number (from 1) of the first line that has drifted, by the lengths of all lines of both files; None if the
    lines belong together."""
    a, b = (numpy.log(numpy.asarray(lengths, dtype=float) + 5) for lengths in (first, second))
    difference = len(a) - len(b)
    if difference:
        return _place(a, b, difference) + 1
    for shift in (*range(1, MOST + 1), *range(-1, -MOST - 1, -1)):
        start, gain = _best_stretch(_fit(a, b, shift) - _fit(a, b, 0))
        if gain > GAIN:
            return start + 1
    return None


def _place(a: NDArray[numpy.float64], b: NDArray[numpy.float64], shift: int) -> int:
    """The first line of the shorter file that fits better with the line `shift` further in the other."""
    if shift < 0:
        a, b, shift = b, a, -shift
    before = numpy.concatenate([[0.0], numpy.cumsum(-abs(a[: len(b)] - b))])
    after = numpy.concatenate([[0.0], numpy.cumsum(-abs(a[shift:] - b))])
    return int(numpy.argmax(before + after[-1] - after))


def _fit(a: NDArray[numpy.float64], b: NDArray[numpy.float64], shift: int) -> NDArray[numpy.float64]:
    """How well line i of b fits line i + shift of a; as badly as can be where there is none."""
    result = numpy.full(len(b), -5.0)
    low, high = max(0, -shift), min(len(b), len(a) - shift)
    if high > low:
        result[low:high] = -abs(a[low + shift : high + shift] - b[low:high])
    return result


def _best_stretch(gains: NDArray[numpy.float64]) -> tuple[int, float]:
    """The stretch with the largest sum: its first place, and the sum."""
    if not len(gains):
        return 0, 0.0
    sums = numpy.concatenate([[0.0], numpy.cumsum(gains)])
    lowest = numpy.minimum.accumulate(sums)
    end = int(numpy.argmax(sums - lowest))
    return int(numpy.argmin(sums[: end + 1])), float(sums[end] - lowest[end])
