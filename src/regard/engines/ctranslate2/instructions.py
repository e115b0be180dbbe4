"""The instruction set that CTranslate2 computes with. It never takes AVX-512 by itself, and it reads its variable when
it is loaded."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

VARIABLE = "CT2_FORCE_CPU_ISA"
CHOICES = {"avx512f": "AVX512"}  # a flag of a CPU, and what CTranslate2 calls the set that it would not take by itself


def flags() -> frozenset[str]:
    """The flags of the CPU; none where Linux does not tell them."""
    with suppress(OSError):
        return frozenset(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return frozenset()


def worth_trying() -> list[str]:
    """The sets that this CPU has and CTranslate2 does not take by itself; none where somebody has chosen one."""
    return [] if VARIABLE in os.environ else [name for flag, name in CHOICES.items() if flag in flags()]


def force(instructions: str | None) -> None:
    """Have CTranslate2 use a set in this process, unless somebody has chosen one or it is loaded already."""
    if instructions is not None and "ctranslate2" not in sys.modules:
        os.environ.setdefault(VARIABLE, instructions)
