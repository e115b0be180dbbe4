"""What [data] names, and holding pairs out of it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from regard.data.pairs.examples import PairsData, open_examples, open_splits, references
from regard.data.pairs.pair import Files, Pair
from regard.errors import RegardError


def pairs_of(sources: list[str]) -> list[Pair]:
    return [Pair(source, f"to {place}", "pairs.tsv", place + 1) for place, source in enumerate(sources)]


def test_splits_without_valid_are_two_halves_of_train(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"{number}\tn{number}\n" for number in range(211)))
    config = PairsData(train=str(tmp_path / "train.tsv"))
    splits = open_splits(config, seed=3)
    train, valid = ([pair.source for pair in part] for part in (splits.train, splits.valid))
    assert splits.test is None
    assert len(valid) == 4
    assert sorted([*train, *valid], key=int) == [str(number) for number in range(211)]
    assert splits.train.fingerprint != splits.valid.fingerprint
    assert splits == open_splits(config, seed=3)


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\teins\n")
    (tmp_path / "b.en").write_text("two\n")
    (tmp_path / "b.de").write_text("zwei\n")
    both = Files(source=str(tmp_path / "b.en"), target=str(tmp_path / "b.de"))
    config = PairsData.model_validate({"train": [str(tmp_path / "a.tsv"), both.model_dump()], "valid": "cmudict:valid"})
    assert [pair.target for pair in open_splits(config, seed=1).train] == ["eins", "zwei"]


def test_the_dictionary_can_be_named_like_a_file() -> None:
    splits = open_splits(PairsData(train="cmudict:train", valid="cmudict:valid", test="cmudict:test"), seed=1)
    assert splits.test is not None
    assert next(iter(splits.test)).file == "cmudict"
    assert splits.test.fingerprint != splits.valid.fingerprint


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("one\teins\n")
    examples = open_examples(str(path), key="data.train")
    before = examples.fingerprint
    assert examples.fingerprint == before
    path.write_text("one\tzwei!\n")
    assert examples.fingerprint != before
    path.unlink()
    with pytest.raises(RegardError, match="does not exist"):
        _ = examples.fingerprint


def test_a_missing_key_is_told() -> None:
    with pytest.raises(RegardError, match=r"data\.train is missing"):
        open_splits(PairsData(), seed=1)


@pytest.mark.parametrize("wrong", [{"trian": "a.tsv"}, {"hold_out": 1.5}, {"hold_out": -3}, {"max_length": 0}])
def test_wrong_keys_and_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PairsData.model_validate(wrong)


def test_references_keep_every_target_of_a_source() -> None:
    assert references(pairs_of(["b", "a", "b"])) == {"b": ["to 0", "to 2"], "a": ["to 1"]}
