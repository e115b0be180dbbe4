"""One thread: tests are small, and more threads would only wait for each other."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("regard", deadline=None)
settings.load_profile("regard")


@pytest.fixture(autouse=True)
def numbers_as_they_are() -> Iterator[None]:
    """Training lets the smallest numbers be 0, for the whole process: the next test starts without."""
    yield
    torch.set_flush_denormal(False)
