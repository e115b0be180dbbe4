"""The machine at hand: its device, threads and memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from regard.errors import RegardError
from regard.kernels.allocator import tune_allocator
from regard.training.config import TrainingConfig

LONG = 1 << 15  # tokens of a batch from which on its tensors are so large that they are given back when freed
NO_MEMORY = ("allocate memory", "not enough memory", "bad_alloc")  # in errors of torch's and C++'s allocators
FEW_THREADS = 64  # any machine takes this many, so that recipes from larger machines run


def prepare(config: TrainingConfig) -> torch.device:
    """Set threads, memory and arithmetic of this process for training, and return the device to train on.

    Call it before any other work in torch: threads that torch has already started do not take over flush-to-zero.
    """
    tune_allocator(keep_all=config.batch_tokens < LONG)
    torch.set_flush_denormal(True)  # denormal numbers, as in the moments of rare tokens, are slow to compute with
    if config.threads:
        torch.set_num_threads(_checked(config.threads))
    return choose_device(config.device)


def _checked(threads: int) -> int:
    cores = os.cpu_count() or 1
    most = max(FEW_THREADS, 4 * cores)
    if threads > most:
        raise RegardError(
            f"threads={threads} is more than this machine with {cores} cores can use; "
            f"try threads={cores}, or 0 for all of them"
        )
    return threads


def choose_device(name: str) -> torch.device:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return accelerator or torch.device("cpu")
    try:
        result = torch.ones(1, device=name) + 1  # "meta" tensors have a shape and no numbers: item() fails
        result.item()
        return result.device
    except (RuntimeError, AssertionError, ImportError) as error:
        there = " or ".join(f'"{kind}"' for kind in ("auto", "cpu", *([accelerator.type] if accelerator else [])))
        raise RegardError(f'device="{name}" cannot be used on this machine; try {there}') from error


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated on a device; where the system does not say, more than any model needs."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, ValueError, KeyError):
        return sys.maxsize


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory does not suffice; on a CPU torch raises a RuntimeError."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in str(error) for sign in NO_MEMORY)


@contextmanager
def explaining_memory() -> Iterator[None]:
    """Turn an allocation that failed while training into a sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise RegardError(
            "there is not enough memory for a step of training; lower training.batch_tokens, data.max_length "
            "or the sizes of [model]"
        ) from error


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The precision of matrix products; weights and their moments are always float32.

    "auto" is bfloat16 on a machine that is made for it: most GPUs of today, CPUs with AVX512-BF16 or AMX.
    """
    gifted = name == "auto" and _multiplies_bfloat16(device)
    return torch.bfloat16 if gifted or name == "bfloat16" else torch.float32


def _multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    can = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def peak_memory(device: str) -> int:
    """The most bytes that this process has held: on a GPU, of its tensors there."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])  # getrusage on Linux may count the memory of a parent too
    except (OSError, ValueError, KeyError):
        from resource import RUSAGE_SELF, getrusage

        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
