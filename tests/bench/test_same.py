"""The comparison of two checkouts: it can fail. Nothing is trained here."""

from pathlib import Path

import numpy
import pytest
import tomli_w

from bench import same
from bench.same import CommandError, differences, losses, parsed, scores, verdict
from bench.same_cases import CASES, write_data
from regard import recipes
from regard.tasks import TASKS

REPORT = {
    "scores": {"bleu": 12.5},
    "signatures": {"bleu": "tok:13a"},
    "seconds": 3.0,
    "versions": {"regard": "1"},
    "history": [{"step": 3, "loss": 2.5, "learning_seconds": 1.0, "tokens_per_second": 7.0}],
    "validations": [{"step": 4, "loss": 2.25}],
}


def changed(part: str, **values: object) -> dict[str, object]:
    return {**REPORT, part: [{**REPORT[part][0], **values}]}


def test_reports_that_differ_in_times_and_versions_alone_are_the_same():
    later = {**changed("history", learning_seconds=9.0, tokens_per_second=1.0), "seconds": 8.0, "versions": {}}
    assert not list(differences(losses(REPORT), losses(later)))
    assert not list(differences(scores(REPORT), scores(later)))


@pytest.mark.parametrize(("part", "was"), [("history", 2.5), ("validations", 2.25)])
def test_another_loss_is_a_difference_however_small_it_is(part, was):
    loss = float(numpy.nextafter(was, 3))
    found = list(differences(losses(REPORT), losses(changed(part, loss=loss))))
    assert found == [(f"{part}[0].loss", f"{was} → {loss}")]


def test_another_score_and_another_signature_are_differences():
    later = {**REPORT, "scores": {"bleu": 12.6}, "signatures": {"bleu": "tok:none"}}
    assert [place for place, _ in differences(scores(REPORT), scores(later))] == ["scores.bleu", "signatures.bleu"]


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (numpy.array([1.0, 2.5], dtype="f4"), "by 0.5 at most"),
        (numpy.array([1.0, 2.0], dtype="f8"), "float32 (2,) → float64 (2,)"),
        (numpy.array([[1.0, 2.0]], dtype="f4"), "float32 (2,) → float32 (1, 2)"),
    ],
)
def test_weights_must_be_equal_in_every_bit_with_type_and_shape(after, what):
    before = numpy.array([1.0, 2.0], dtype="f4")
    assert not list(differences({"w": before}, {"w": before.copy()}))
    assert list(differences({"w": before}, {"w": after})) == [("w", what)]


def test_tensors_and_keys_that_only_one_side_has_are_differences():
    found = dict(differences({"a": 1, "b": 2}, {"b": 2, "c": 3}))
    assert found == {"a": "is only before", "c": "is only after"}


def test_plain_values_are_compared_with_their_types_and_nan_equals_nan():
    assert list(differences(1, 1.0))
    assert list(differences([1, 2], [1])) == [("", "2 items → 1 items")]
    assert not list(differences([float("nan"), "x"], [float("nan"), "x"]))


def test_of_long_texts_the_part_that_differs_is_shown():
    ((_, what),) = differences("a" * 100 + "b", "a" * 100 + "c")
    assert what == f"…{'a' * 20}b' → …{'a' * 20}c'"


def test_printed_answers_are_compared_by_line_and_inside_of_json():
    before, after = '{"score": 1.0}\n{"score": 2.0}\n', '{"score": 1.0}\n{"score": 2.5}\n'
    assert list(differences(parsed(before), parsed(after))) == [("[1].score", "2.0 → 2.5")]
    assert list(differences(parsed("a\nb\n"), parsed("a\nc\n"))) == [("[1]", "'b' → 'c'")]
    assert parsed('{\n"bleu": 1.0\n}\n') == {"bleu": 1.0}


def test_a_known_difference_covers_the_places_it_names_and_no_others():
    known = {"*/scores/signatures.*": "another name for the tokenizer"}
    signature, score = ("signatures.bleu", "a → b"), ("scores.bleu", "1 → 2")
    assert verdict("tag/scores", iter([]), known) == "same"
    assert verdict("tag/scores", iter([signature]), known) == "known: another name for the tokenizer"
    assert verdict("tag/scores", iter([signature, score]), known) == "differs: scores.bleu: 1 → 2"
    assert verdict("tag/scores", iter([signature]), {}) == "differs: signatures.bleu: a → b"


def test_a_command_that_fails_makes_every_cell_of_its_case_differ(tmp_path: Path):
    class Broken(same.Checkout):
        def regard(self, *_: object, **__: object) -> str:
            raise CommandError("`regard train` fails")

    cells = same.row(CASES[0], *(Broken(name, tmp_path, tmp_path) for name in ("before", "after")))
    assert set(cells.values()) == {"differs: `regard train` fails"}
    assert {"losses", "weights", "scores", "answers", "evaluate", "record", "resume", "old directory"} <= set(cells)


@pytest.mark.parametrize(("cell", "code"), [("same", 0), ("known: renamed", 0), ("differs: loss: 1 → 2", 1)])
def test_the_exit_code_is_1_if_anything_differs(cell, code, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(same.Checkout, "start", lambda *_: None)
    monkeypatch.setattr(same, "row", lambda *_: {"losses": cell, "weights": "same"})
    ended = 0
    try:
        same.main(["--before", str(Path(same.__file__).parent.parent), "--only", "tag"])
    except SystemExit as end:
        ended = end.code
    assert ended == code
    printed = capsys.readouterr().out
    assert printed.startswith("case  losses   weights\n")
    assert (f"tag, losses {cell}" in printed) == (cell != "same")


def test_every_task_has_a_case_and_every_case_is_a_recipe(tmp_path: Path):
    later = {"rank", "see", "sets", "caption", "nodes", "forecast"}
    assert {case.recipe["task"] for case in CASES} == set(TASKS) - later
    for case in CASES:
        recipes.parse(tomli_w.dumps(case.recipe), where=case.name)
        assert case.body in ("", *(each.name for each in CASES))
    for name in ("one", "two"):
        write_data(tmp_path / name)
    contents = [[path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("one", "two")]
    assert contents[0] == contents[1]
