"""Made once, kept whole or not at all, and made again when something changed."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest

from regard import durable
from regard.data.kept import checksum_of, kept
from regard.data.pairs.corpus import prepare
from regard.data.pairs.examples import open_examples
from regard.data.pairs.filters import Filters
from regard.data.text.text import Text
from regard.data.text.tokens import tokenise
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.errors import RegardError


def keep(path: Path, content: str = "one", made_from: str = "this") -> str:
    """What is read: the content of the file, and what its description says."""

    def make(beside: Path) -> Mapping[str, object]:
        beside.write_text(content)
        return {"length": len(content)}

    def read(stored: Mapping[str, Any]) -> str:
        return f"{path.read_text()} {stored['length']}"

    return kept(path, made_from=[made_from], make=make, read=read)


def test_it_is_made_once_and_again_when_it_is_made_from_something_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "train.bin"
    assert keep(path) == "one 3"
    assert keep(path, "other") == "one 3"
    assert keep(path, "other", "that") == "other 5"
    assert sorted(each.name for each in path.parent.iterdir()) == ["train.bin", "train.json"]


@pytest.mark.parametrize("damage", ["content", "no content", "description", "key", "kind"])
def test_a_damaged_one_is_made_again_with_a_warning(tmp_path: Path, damage: str) -> None:
    path, description = tmp_path / "train.bin", tmp_path / "train.json"
    keep(path)
    stored = json.loads(description.read_text())
    if damage == "content":
        path.write_text("two")
    elif damage == "no content":
        path.unlink()
    elif damage == "description":
        description.write_text('{"made_from": ')
    elif damage == "key":
        description.write_text(json.dumps({name: stored[name] for name in ("made_from", "checksum")}))
    else:
        description.write_text("[]")
    with pytest.warns(RuntimeWarning, match=r"train\.bin is damaged .* made again"):
        assert keep(path, "new") == "new 3"
    assert keep(path, "other") == "new 3"


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    keep(path)
    child = os.fork()
    if child == 0:
        try:
            kept(path, made_from=["that"], make=lambda beside: os._exit(beside.write_text("half")), read=str)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["train.bin", f"train.bin.{child}.partial", "train.json"]
    assert keep(path) == "one 3"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["train.bin", "train.json"]


def test_a_crash_between_the_two_files_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.bin"

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    for before in (False, True):  # nothing was there; something was
        with monkeypatch.context() as patched:
            patched.setattr(durable, "write_file", crash)
            with pytest.raises(KeyboardInterrupt):
                keep(path, "half", "that")
        assert path.read_text() == "half"
        assert keep(path, "whole", "those" if before else "this") == "whole 5"


def test_content_of_another_description_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.bin"
    keep(path)
    with monkeypatch.context() as patched:
        patched.setattr(durable, "write_file", lambda *_: None)
        keep(path, "half", "that")
    with pytest.warns(RuntimeWarning, match="the checksum differs"):
        assert keep(path) == "one 3"


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.bin"
    keep(path)

    def fail(beside: Path) -> Mapping[str, object]:
        beside.write_text("half")
        raise RegardError("train.tsv:53 has no tab")

    with pytest.raises(RegardError, match="no tab"):
        kept(path, made_from=["that"], make=fail, read=str)
    monkeypatch.setattr(durable.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(RegardError, match=r"cannot write .*train\.bin: the disk is full"):
        keep(path, "new", "that")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["train.bin", "train.json"]
    assert keep(path) == "one 3"


def test_a_child_of_a_killed_process_may_still_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with durable.replacing(path) as beside:
        beside.write_text("ours")
        child = os.fork()
        if child == 0:
            try:
                durable.write_file(path, b"of the child")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert path.read_text() == "of the child"
    assert path.read_text() == "ours"
    assert [each.name for each in tmp_path.iterdir()] == ["train.bin"]


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were on the disk before they were moved, in order."""
    names: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def move(self: Path, target: Path) -> Path:
        names.append(f"{self.name} → {target.name}")
        return replace(self, target)

    monkeypatch.setattr(durable.os, "fsync", note)
    monkeypatch.setattr(Path, "replace", move)
    return names


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a man sleeps\n"], kind="characters", vocabulary=29)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks up open files in /proc")
@pytest.mark.parametrize("kind", ["arrow", "npy"])
def test_corpora_and_tokens_are_on_the_disk_before_they_are_moved_to_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer, kind: str
) -> None:
    folder = tmp_path / "c"
    (tmp_path / "train.tsv").write_text("a man\tsleeps\n")
    examples = open_examples(str(tmp_path / "train.tsv"), key="data.train")
    names = synced(monkeypatch)
    if kind == "arrow":
        prepare(examples, Tokenizers(tokenizer), folder=folder, name="train", filters=Filters())
    else:
        tokenise(Text((str(tmp_path / "train.tsv"),)), tokenizer, folder=folder, name="train")
    beside = f"{os.getpid()}.partial"
    content, description = f"train.{kind}", "train.json"
    assert names == [
        *(f"{content}.{beside}", f"{content}.{beside} → {content}", "c"),
        *(f"{description}.{beside}", f"{description}.{beside} → {description}", "c"),
    ]


def test_files_of_the_documented_form_are_taken_as_they_are(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Written here by hand, as they were written before this module was: NAME.arrow or NAME.npy, and NAME.json."""
    (tmp_path / "train.tsv").write_text("a man\tsleeps\n")
    examples = open_examples(str(tmp_path / "train.tsv"), key="data.train")
    text, tokenizers, filters = Text((str(tmp_path / "train.tsv"),)), Tokenizers(tokenizer), Filters(max_length=47)

    ids = pyarrow.list_(pyarrow.uint16())
    schema = pyarrow.schema([("source", ids), ("target", ids)])
    with pyarrow.OSFile(str(tmp_path / "pairs.arrow"), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch([[[7, 8, 9]], [[10]]], schema=schema))
    report = {"read": 3, "kept": 1, "dropped": {"empty": {"reason": "with an empty side", "count": 2, "first": "x:1"}}}
    described = [1, examples.fingerprint, tokenizers.fingerprint, asdict(filters)]
    describe(tmp_path / "pairs.arrow", described, report=report)
    corpus = prepare(examples, tokenizers, folder=tmp_path, name="pairs", filters=filters)
    assert (corpus.source[0].tolist(), corpus.target[0].tolist()) == ([7, 8, 9], [10])
    assert str(corpus.report) == "3 pairs read, 1 kept; dropped 2 with an empty side (first at x:1)"

    numpy.save(tmp_path / "text.npy", numpy.array([5, 6, 7], dtype=numpy.uint16))
    describe(tmp_path / "text.npy", [1, text.fingerprint, tokenizer.json], characters=13, unknown=2)
    tokens = tokenise(text, tokenizer, folder=tmp_path, name="text")
    assert (tokens.ids.tolist(), tokens.characters, tokens.unknown) == ([5, 6, 7], 13, 2)
    assert tokens.checksum == checksum_of(tmp_path / "text.npy")


def describe(path: Path, made_from: list[object], **facts: object) -> None:
    digest = sha256(repr(made_from).encode()).hexdigest()
    description = {"made_from": digest, "checksum": checksum_of(path), **facts}
    path.with_suffix(".json").write_text(json.dumps(description))
