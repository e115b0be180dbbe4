"""Toy runs are too small to share between threads, and what they set is set back."""

from collections.abc import Iterator

import pytest
import torch

from regard import durable


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.set_flush_denormal(False)


@pytest.fixture
def unsynced(monkeypatch):
    """Leave out the waiting for the disk, which only a power cut could tell."""
    monkeypatch.setattr(durable.os, "fsync", lambda _: None)
