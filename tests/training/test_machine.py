import pytest
import torch

from regard.errors import RegardError
from regard.training import machine
from regard.training.config import TrainingConfig


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


@pytest.mark.parametrize("threads", [1_000_000, 2**31, 10**20])
def test_more_threads_than_the_machine_can_use_are_refused(threads, monkeypatch):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 3)
    before = torch.get_num_threads()
    with pytest.raises(RegardError, match=rf"threads={threads} .* 3 cores .*; try threads=3, or 0 for all of them"):
        machine.prepare(TrainingConfig(device="cpu", threads=threads))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("cores", "threads"), [(None, 64), (1, 64), (2, 64), (17, 68), (100, 400)])
def test_a_few_threads_for_each_core_are_allowed(cores, threads, monkeypatch):
    taken = []
    monkeypatch.setattr(machine.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    machine.prepare(TrainingConfig(device="cpu", threads=threads))
    assert taken == [threads]
    with pytest.raises(RegardError, match="cores"):
        machine.prepare(TrainingConfig(device="cpu", threads=threads + 1))


@pytest.mark.parametrize("name", ["gpu", "cuda:97", "cpuu", "", "meta", "meta:0", "hpu", "privateuseone", "opengl"])
def test_a_device_that_is_not_there_is_named_in_a_sentence(name):
    with pytest.raises(RegardError, match=f'device="{name}" cannot be used on this machine; try "auto" or "cpu"'):
        machine.choose_device(name)


def test_auto_takes_the_accelerator_or_the_cpu():
    there = torch.accelerator.current_accelerator(check_available=True)
    assert machine.choose_device("auto") == (there or torch.device("cpu"))


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"avx512_bf16": True}, torch.bfloat16), ({"amx_bf16": True}, torch.bfloat16), ({"avx2": True}, torch.float32)],
)
def test_a_cpu_multiplies_in_bfloat16_if_it_is_made_for_it_or_told_to(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    cpu = torch.device("cpu")
    found = {name: machine.choose_precision(name, cpu) for name in ("auto", "float32", "bfloat16")}
    assert found == {"auto": expected, "float32": torch.float32, "bfloat16": torch.bfloat16}
