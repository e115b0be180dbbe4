"""`regard run` and `regard export`: which runtime answers, and that the answers are the same."""

import json
import re
import subprocess
import sys

import pytest

import regard
from made_models import WORDS, write_model
from read_models import BERT, GPT, write_reader
from small_models import reversing

TEXTS = [" ".join(WORDS[first : first + length]) for first, length in ((0, 5), (7, 2), (3, 9))]
# runs a command, and tells by its exit code whether torch (3), CTranslate2 (4), both (7) or none (0) were loaded
SCRIPT = """
import sys
from regard import cli
try:
    cli.main()
except SystemExit as ended:
    if ended.code:
        raise
sys.exit(3 * ("torch" in sys.modules) + 4 * ("ctranslate2" in sys.modules))
"""
TORCH, CTRANSLATE2 = 3, 4


def call(*arguments):
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("made"), ending=3.0, position="rotary", decoding={"max_length": 9})


def test_a_transformer_is_answered_without_torch_and_with_the_same_answers(model):
    for _ in range(2):  # converted first, then found converted
        result = call("run", model, *TEXTS)
        assert (result.returncode, result.stderr) == (CTRANSLATE2, "")
        assert result.stdout.splitlines() == regard.load(model)(TEXTS)


def test_the_name_of_a_file_is_a_text_and_how_to_answer_its_lines_is_told(model, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(TEXTS))
    result = call("run", model, file, TEXTS[0])
    told = f"regard: {file} is answered as a text; for the lines of the file: regard run MODEL < {file}\n"
    assert result.stderr.startswith(told)
    assert len(result.stdout.splitlines()) == 2


def test_json_with_alignment_tells_the_same_by_both_runtimes(model):
    options = ["run", model, "--json", "--alignment", "--n-best", 3, *TEXTS, ""]
    ours, theirs = (
        [json.loads(line) for line in call(*options, "--runtime", name).stdout.splitlines()]
        for name in ("torch", "ctranslate2")
    )
    assert len(ours) == len(theirs) == len(TEXTS) + 1
    for first, second in zip(ours, theirs, strict=True):
        for left, right in zip(first.pop("answers"), second.pop("answers"), strict=True):
            assert right.pop("score") == pytest.approx(left.pop("score"), abs=1e-4)
            assert right == left
        assert first == second


@pytest.mark.parametrize(
    ("task", "labels", "settings"),
    [
        ("classify", ("bad", "good"), BERT),
        ("embed", (), BERT),
        ("tag", ("B-LOC", "I-LOC", "O"), BERT),
        ("answer", ("start", "end"), BERT),
        ("rank", ("relevance",), BERT),
        ("fill", (), {**BERT, "mask": True}),
        ("write", (), {**GPT, "decoding": {"beam": 1, "max_length": 7}}),
    ],
)
def test_other_tasks_are_answered_without_torch_too(tmp_path, task, labels, settings):
    directory = write_reader(tmp_path / task, task, labels=labels, **settings)
    given = ["the small dog sees", "an old fox"]
    if task == "fill":
        given = [f"{text} [MASK]" for text in given]
    if task in ("answer", "rank"):
        given = [f"{text}\tthe small dog sees a red house near Paris" for text in given]
    ours, theirs = (call("run", directory, "--json", *given, *options) for options in ([], ["--runtime", "torch"]))
    assert (ours.returncode, ours.stderr) == (CTRANSLATE2, "")
    assert (theirs.returncode, theirs.stderr) == (TORCH, "")
    number = re.compile(r"-?\d+\.\d+(e-\d+)?")
    assert number.sub("#", ours.stdout) == number.sub("#", theirs.stdout)
    numbers = [[float(found[0]) for found in number.finditer(said.stdout)] for said in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)
    assert numbers[0]


def test_a_text_is_written_in_pieces_without_torch(tmp_path):
    directory = write_reader(tmp_path / "write", "write", decoding={"beam": 1, "max_length": 7}, **GPT)
    result = call("run", directory, "the small dog")
    assert (result.returncode, result.stderr) == (CTRANSLATE2, "")
    assert result.stdout == f"{regard.load(directory)('the small dog')}\n"
    sampled = call("run", directory, "--sample", "--seed", 3, "the small dog")
    assert (sampled.returncode, sampled.stderr) == (TORCH, "")


@pytest.mark.parametrize(
    "options", [["--runtime", "torch"], ["--sample"], ["--prefix", "w1"], ["--no-repeat-ngram", "2"]]
)
def test_what_ctranslate2_does_otherwise_is_answered_by_torch(model, options):
    result = call("run", model, *options, *TEXTS)
    assert (result.returncode, result.stderr) == (TORCH, "")
    assert len(result.stdout.splitlines()) == len(TEXTS)


def test_a_recurrent_network_is_answered_by_torch():
    made = reversing("seq2seq")
    result = call("run", made.path, "abc")
    assert (result.returncode, result.stdout) == (TORCH, f"{made('abc')}\n")


def test_a_trained_model_gives_the_same_answers_by_both():
    words = ["abc", "de", "edcba", "aab", "cde"]
    made = reversing("transformer")
    for beam in (1, 3):
        result = call("run", made.path, "--beam", beam, "--runtime", "ctranslate2", *words)
        decoding = made.decoding({"beam": beam})
        assert result.stdout.split() == [found[0].text for found in made.answers(words, decoding=decoding)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--runtime", "ctranslate2", "--sample"], "--runtime ctranslate2 cannot answer this: CTranslate2 draws other"),
        (
            ["--compute-type", "int8", "--sample"],
            "--compute-type int8 is for CTranslate2, which does not answer here: CTranslate2 draws other",
        ),
        (["--compute-type", "int8", "--runtime", "torch"], "--runtime torch was given"),
        (["--temperature", "2"], "temperature=2.0 does nothing without sample=true"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_told_on_one_line(model, options, told):
    result = call("run", model, *options, "w1")
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("compute_type", ["int8", "auto"])
def test_other_precisions_answer_too(model, compute_type):
    result = call("run", model, "--compute-type", compute_type, *TEXTS)
    assert (result.returncode, result.stderr) == (CTRANSLATE2, "")
    assert len(result.stdout.splitlines()) == len(TEXTS)


def test_export_writes_a_directory_without_torch(model, tmp_path):
    result = call("export", model, tmp_path / "out", "--to", "ctranslate2")
    assert (result.returncode, result.stderr) == (CTRANSLATE2, "")
    assert {"model.bin", "config.json", "source.json", "target.json"} <= {
        each.name for each in (tmp_path / "out").iterdir()
    }
    again = call("export", model, tmp_path / "out", "--to", "ctranslate2")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "exists and is not empty" in again.stderr


def test_what_cannot_be_exported_is_told_on_one_line(tmp_path):
    result = call("export", reversing("seq2seq").path, tmp_path / "out", "--to", "ctranslate2")
    assert result.returncode == 2
    assert 'cannot express model.kind = "seq2seq"' in result.stderr
    assert call("export", tmp_path, tmp_path / "out", "--to", "ctranslate2").returncode == 2
