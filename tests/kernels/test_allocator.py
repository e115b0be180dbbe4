"""The allocator of glibc keeps memory, and gives it back when asked to."""

import platform
import subprocess
import sys

import pytest

from regard.kernels import allocator


def test_the_allocator_is_tuned_on_glibc_and_left_alone_elsewhere(monkeypatch):
    assert allocator.tune_allocator() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert not allocator.tune_allocator()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory")
def test_freed_memory_between_tensors_is_given_back():
    """In a process of its own, since tuning the allocator stays."""
    script = """
import torch
from pathlib import Path
from regard.kernels import allocator

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

allocator.tune_allocator()
tensors = [torch.ones(250_000) for _ in range(200)]  # 200 MB
kept = tensors[::20]
tensors.clear()
before = resident()
allocator.give_back()
print(before - resident())
"""
    given = int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout)
    assert given > 150_000_000


def test_decoding_tunes_it_once():
    allocator.tune_for_answers.cache_clear()
    assert allocator.tune_for_answers() == (platform.libc_ver()[0] == "glibc")
    assert allocator.tune_for_answers.cache_info().misses == 1
    allocator.tune_for_answers()
    assert allocator.tune_for_answers.cache_info().misses == 1
