"""One thread for each process: tests are small, and more threads would only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start; read when torch is imported

from collections import Counter
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, and why, where nobody can overlook it."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[-1]).removeprefix("Skipped: ") for report in reports)
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED: {number} of the tests: {reason}", yellow=True)
