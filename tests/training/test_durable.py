import errno

import pytest

from regard.errors import RegardError
from regard.training import durable


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    durable.write_file(tmp_path / "weights", b"old")
    monkeypatch.setattr(durable.os, "fsync", full_disk)
    with pytest.raises(RegardError, match=r"cannot write .*weights: the disk is full; .* free some space"):
        durable.write_file(tmp_path / "weights", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"weights": b"old"}


def test_a_full_disk_leaves_the_old_directory_and_nothing_else(tmp_path, monkeypatch):
    durable.write_directory(tmp_path / "step", {"a": b"old"})
    monkeypatch.setattr(durable.os, "fsync", full_disk)
    with pytest.raises(RegardError, match="the disk is full"):
        durable.write_directory(tmp_path / "step", {"a": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["step"]
    assert (tmp_path / "step" / "a").read_bytes() == b"old"


def test_other_refusals_say_what_the_system_said(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RegardError, match="Not a directory"):
        durable.write_file(tmp_path / "file" / "weights", b"new")


def test_a_directory_is_replaced_as_a_whole(tmp_path):
    durable.write_directory(tmp_path / "step", {"a": b"1", "b": b"2"})
    durable.write_directory(tmp_path / "step", {"a": b"3"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "step").iterdir()} == {"a": b"3"}


def test_what_a_kill_left_behind_is_swept_away(tmp_path):
    (tmp_path / "step-1").mkdir()
    (tmp_path / f"step-2{durable.PARTIAL}").mkdir()
    (tmp_path / f"step-2{durable.PARTIAL}" / "half").write_bytes(b"")
    (tmp_path / f"weights{durable.PARTIAL}").write_bytes(b"")
    durable.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
