import platform

import pytest
import torch

from regard.errors import RegardError
from regard.training import machine
from regard.training.config import TrainingConfig


def test_the_allocator_is_tuned_on_glibc_and_left_alone_elsewhere(monkeypatch):
    assert machine.tune_allocator() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(machine.sys, "platform", "darwin")
    assert not machine.tune_allocator()


def test_threads_are_set_only_when_asked_for():
    before = torch.get_num_threads()
    try:
        assert machine.prepare(TrainingConfig(device="cpu")) == torch.device("cpu")
        assert torch.get_num_threads() == before
        machine.prepare(TrainingConfig(device="cpu", threads=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("name", ["gpu", "cuda:97", "cpuu", ""])
def test_a_device_that_is_not_there_is_named_in_a_sentence(name):
    with pytest.raises(RegardError, match=f'device="{name}" cannot be used on this machine; try "auto" or "cpu"'):
        machine.choose_device(name)


def test_auto_takes_the_accelerator_or_the_cpu():
    there = torch.accelerator.current_accelerator(check_available=True)
    assert machine.choose_device("auto") == (there or torch.device("cpu"))


def test_a_cpu_computes_in_float32_unless_told_otherwise():
    cpu = torch.device("cpu")
    found = {name: machine.choose_precision(name, cpu) for name in ("auto", "float32", "bfloat16")}
    assert found == {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
