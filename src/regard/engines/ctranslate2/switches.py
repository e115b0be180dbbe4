"""The variables by which CTranslate2 is told how to compute on a CPU. It reads them when it is loaded.

It never takes AVX-512 by itself, and on every CPU of Intel it takes MKL for products, where oneDNN may be faster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

Switches = Mapping[str, str]
CHOICES = {"avx512f": ("CT2_FORCE_CPU_ISA", "AVX512"), "GenuineIntel": ("CT2_USE_MKL", "0")}  # by words of the CPU


def said_of_the_cpu() -> frozenset[str]:
    """The words that Linux has for the CPU, its flags among them; none elsewhere."""
    with suppress(OSError):
        return frozenset(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return frozenset()


def worth_trying() -> Sequence[Switches]:
    """Settings that differ from CTranslate2's own choice on this CPU; what somebody has set already stays as it is."""
    said = said_of_the_cpu()
    useful = [pair for word, pair in CHOICES.items() if word in said and pair[0] not in os.environ]
    return [dict([pair]) for pair in useful] + ([dict(useful)] if len(useful) > 1 else [])


def set_here(switches: Switches) -> None:
    """Set them in this process, unless somebody has set them or CTranslate2 is loaded already."""
    if "ctranslate2" not in sys.modules:
        for name, value in switches.items():
            os.environ.setdefault(name, value)
