"""The machine that figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PARTICULAR = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")  # what decides how fast products are


def describe(threads: int) -> dict[str, Any]:
    """CPU, cores this process may use, memory and systems."""
    facts = _processor()
    return {
        "cpu": facts.get("model name", platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": threads,
        "instructions": [name for name in PARTICULAR if name in facts.get("flags", "").split()],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _processor() -> dict[str, str]:
    """The first processor of /proc/cpuinfo, where there is one."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    pairs = (line.partition(":")[::2] for line in lines)
    return {name.strip(): value.strip() for name, value in pairs}
