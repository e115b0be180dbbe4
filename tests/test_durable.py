import errno
import shutil
from itertools import count

import pytest

from faulty_disk import Death, FullDisk, Killed, failing
from regard import durable
from regard.errors import RegardError


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    durable.write_file(tmp_path / "weights", b"old")
    monkeypatch.setattr(durable.os, "fsync", full_disk)
    with pytest.raises(
        RegardError, match=r"cannot write .*weights: the disk is full, and 3 bytes are needed; .* free some space"
    ):
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


def everything(directory):
    """Every name in a directory and below it, with its content."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def file_in_place(directory):
    durable.write_file(directory / "x", b"new")


def directory_in_place(directory):
    durable.write_directory(directory / "x", {"a": b"new", "b": b"too"})


def directory_removed(directory):
    durable.remove_directory(directory / "x")


def file_removed(directory):
    durable.remove_file(directory / "x")


def old_file(directory):
    (directory / "x").write_bytes(b"old")


def old_directory(directory):
    (directory / "x").mkdir()
    (directory / "x" / "a").write_bytes(b"old")


def old_link(directory):
    (directory / "x").symlink_to("nowhere")


def nothing(_):
    pass


CHANGES = [
    (nothing, file_in_place),
    (old_file, file_in_place),
    (old_file, file_removed),
    (nothing, directory_in_place),
    (old_directory, directory_in_place),
    (old_file, directory_in_place),
    (old_link, directory_in_place),
    (old_directory, directory_removed),
]


def attempts(tmp_path, before, change, fault):
    """The change in directories of their own, each with a fault at the next operation, until there is none any more."""
    (tmp_path / "before").mkdir()
    before(tmp_path / "before")
    change(_copy(tmp_path, "after"))
    states = [everything(tmp_path / name) for name in ("before", "after")]
    for number in count():
        directory, chosen, failure = _copy(tmp_path, str(number)), fault(number), None
        try:
            with failing(chosen):
                change(directory)
        except (Killed, RegardError) as error:
            failure = error
        yield directory, failure, *states
        if not chosen.reached:
            return


def _copy(tmp_path, name):
    shutil.copytree(tmp_path / "before", tmp_path / name, symlinks=True)
    return tmp_path / name


@pytest.mark.parametrize(("before", "change"), CHANGES)
def test_killed_at_any_moment_a_change_is_made_or_not(tmp_path, before, change):
    tried = 0
    for directory, _, old, new in attempts(tmp_path, before, change, Death):
        durable.sweep(directory)
        assert everything(directory) in (old, new)
        tried += 1
    assert tried > 1


@pytest.mark.parametrize(("before", "change"), CHANGES)
def test_a_full_disk_at_any_moment_is_said_and_leaves_nothing_half(tmp_path, before, change):
    """Without sweeping."""
    failed = 0
    for directory, failure, old, new in attempts(tmp_path, before, change, FullDisk):
        if failure:
            assert isinstance(failure, RegardError)
            assert str(failure).startswith(("cannot write", "cannot remove"))
            assert f"{directory / 'x'}: the disk is full" in str(failure)
            failed += 1
        assert everything(directory) in (old, new)
    assert failed or change is file_removed


def test_what_was_being_replaced_is_put_back_wherever_it_is(tmp_path):
    durable.write_directory(tmp_path / "a" / "b" / f"step{durable.REPLACED}", {"x": b"1"})
    durable.write_directory(tmp_path / "a" / "b" / f"step{durable.PARTIAL}", {"x": b"2"})
    durable.write_file(tmp_path / "a" / f"report.json{durable.PARTIAL}", b"half")
    durable.sweep(tmp_path)
    assert everything(tmp_path) == {"a": None, "a/b": None, "a/b/step": None, "a/b/step/x": b"1"}


def test_links_are_removed_and_not_what_they_point_to(tmp_path):
    durable.write_directory(tmp_path / "real", {"x": b"1"})
    (tmp_path / f"link{durable.PARTIAL}").symlink_to(tmp_path / "real")
    (tmp_path / "step").symlink_to(tmp_path / "real")
    durable.sweep(tmp_path)
    durable.remove_directory(tmp_path / "step")
    assert everything(tmp_path) == {"real": None, "real/x": b"1"}


def test_a_directory_that_is_not_there_cannot_be_entered(tmp_path):
    with pytest.raises(RegardError, match=r"cannot open .*nowhere: No such file"), durable.alone(tmp_path / "nowhere"):
        pass


def test_what_fails_inside_is_not_taken_for_a_lock(tmp_path):
    with pytest.raises(BlockingIOError), durable.alone(tmp_path):
        raise BlockingIOError


def test_a_drive_without_locks_lets_a_process_enter(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unable)
    with durable.alone(tmp_path):
        pass


def test_a_file_that_its_writer_gives_up_leaves_the_old_one_and_nothing_else(tmp_path):
    def write(content, error=None):
        with durable.replacing(tmp_path / "weights") as beside:
            beside.write_bytes(content)
            if error:
                raise error

    write(b"old")
    with pytest.raises(KeyboardInterrupt):
        write(b"half", KeyboardInterrupt())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"weights": b"old"}
