"""Whatever goes wrong is one line on standard error: exit code 2 if the user can put it right, 1 if not."""

import errno
import json
import os
import subprocess
import sys
import tomllib

import numpy
import pytest
import safetensors.numpy
import tomli_w

import regard
from made_models import write_model
from regard import cli
from small_models import reversing

LONG = "x" * 5000


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("made") / "model", ending=3.0, decoding={"max_length": 9})


def assert_one_line(result, *told, code=2):
    assert result.code == code
    assert result.err.startswith("regard: ")
    assert result.err.count("\n") == 1
    assert len(result.err) < 1000
    for part in told:
        assert part in result.err


# any error


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyError("wires"), 1, "an unexpected error: KeyError: 'wires'; run again with --debug"),
        (AssertionError("x" * 10**6), 1, "an unexpected error: AssertionError: xxx"),
        (type("PanicException", (BaseException,), {})("range end"), 1, "an unexpected error: PanicException"),
        (MemoryError("30 GB"), 2, "there is not enough memory (30 GB)"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), 2, "not enough"),
        (RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"), 2, "not enough memory"),
        (RecursionError("maximum depth"), 2, "nested too deeply"),
        (OverflowError("int too large"), 2, "a number is too large"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates"), 2, "not UTF-8"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 2, "(No space left on device)"),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), 2, "a/b cannot be read or written"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_any_error_is_one_line_and_a_traceback_only_if_asked_for(call, monkeypatch, error, code, told):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli, "_print_table", fail)
    assert_one_line(call("recipes"), told, code=code)
    if code != 130:
        debugged = call("recipes", "--debug")
        assert debugged.code == code
        assert "Traceback" in debugged.err
        assert told in debugged.err


def test_the_environment_asks_for_a_traceback_too(call, monkeypatch):
    monkeypatch.setenv("REGARD_DEBUG", "1")
    assert "Traceback" in call("run", "nowhere").err


# streams


@pytest.mark.parametrize(
    ("redirected", "code", "told"),
    [
        (">/dev/full", 2, "No space left on device"),
        (">&-", 2, "standard output is closed"),
        ("| true", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_streams_that_cannot_be_written(redirected, code, told):
    script = f"{sys.executable} -m regard.cli --help {redirected}\nexit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert told in result.stderr
    assert result.stderr.count("\n") == bool(told)


def test_standard_input_that_is_closed_is_told(model):
    script = f"{sys.executable} -m regard.cli run {model} <&-"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "standard input is closed" in result.stderr


# names and numbers


@pytest.mark.parametrize("command", ["run", "look", "train", "evaluate", "bench"])
def test_a_name_that_is_too_long_is_told(call, command):
    assert_one_line(call(command, LONG))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "99999"], "--port"),
        (["--port", "-1"], "--port"),
        (["--port", 10**20], "--port"),
        (["w1", "-o", "nosuch/x.html"], "nosuch/x.html"),
        (["w1", "-o", LONG + ".json"], "File name too long"),
        ([b"w1 \xff"], "is not UTF-8"),
    ],
    ids=["port", "negative", "huge", "folder", "long", "bytes"],
)
def test_what_look_cannot_do_is_told(call, model, arguments, told):
    assert_one_line(call("look", model, *(os.fsdecode(x) if isinstance(x, bytes) else x for x in arguments)), told)


def test_a_text_that_could_not_be_a_name_is_looked_at(call, model):
    assert call("look", model, "w1 " * 100).code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--beam", 10**6], "beam = 1000000"),
        (["--beam", 10**20], "beam"),
        (["--n-best", 10**5], "100000"),
        (["--samples", 10**5], "n_best = 100000"),
        (["--max-length", 10**9], "max_length"),
        (["--sample", "--top-p", "1e-300"], "top_p"),
        (["--sample", "--temperature", "1e-300"], "temperature"),
        (["--sample", "--temperature", "nan"], "temperature"),
        (["--sample", "--seed", 10**20], "seed"),
        (["--sample", "--top-k", 10**20], "top_k"),
        (["--no-repeat-ngram", 10**20], "no_repeat_ngram"),
        (["--prefix", os.fsdecode(b"\xff")], "is not UTF-8"),
        ([os.fsdecode(b"\xff")], "is not UTF-8"),
    ],
    ids=lambda value: str(value[-2:]) if isinstance(value, list) else "",
)
def test_options_of_run_have_bounds(call, model, options, told):
    assert_one_line(call("run", model, *options, "w1"), told)


# a recipe that does not fit its weights


def changed(key, value):
    def change(tables):
        tables["model"][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changed("heads", 0), "heads"),
        (changed("heads", 7), "heads=7 does not divide width=30"),
        (changed("heads", "x"), "heads"),
        (changed("width", 25), "source.table.weight"),
        (changed("width", 10**12), "model.width = 1000000000000 does not fit weights.safetensors"),
        (changed("width", 1.5), "width"),
        (changed("hidden", 24), "feed_forward.inner.weight has the shape (23, 30)"),
        (changed("encoder_layers", 2), "encoder.blocks.2"),
        (changed("encoder_layers", 4), "encoder.blocks.3.attention.query.weight is missing"),
        (changed("decoder_layers", 10**12), "model.decoder_layers = 1000000000000 does not fit"),
        (changed("tied", False), "output.weight is missing"),
        (changed("tied", 3), "tied"),
        (changed("dropout", "x"), "dropout"),
        (changed("position", "learned"), "source.position.table is missing"),
        (changed("kind", ["transformer"]), "kind"),
        (changed("special", 5), "model.special"),
        (lambda tables: tables.update(model=[tables["model"]]), "[model] must be a table"),
        (lambda tables: tables.update(decoding="x"), "a table with keys of its own is expected, and not 'x'"),
        (lambda tables: tables["decoding"].update(beam="x"), "beam = 'x'"),
        (lambda tables: tables.update(task="nosuch"), "names no task"),
    ],
)
def test_a_recipe_that_does_not_fit_its_weights_is_told(call, tmp_path, change, told):
    directory = write_model(tmp_path, decoding={"max_length": 9})
    tables = tomllib.loads((tmp_path / "recipe.toml").read_text())
    change(tables)
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(tables))
    assert_one_line(call("run", directory, "--n-best", "2", "w1"), told)


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("decoder.final.bias", lambda array: array[None], "decoder.final.bias has the shape (1, 30)"),
        ("source.table.weight", lambda array: array.T, "source.table.weight has the shape (30, 41)"),
        ("target.table.weight", lambda array: array.astype(numpy.int8), "target.table.weight is of type I8"),
    ],
)
def test_weights_of_another_shape_or_type_are_told(call, tmp_path, name, change, told):
    directory = write_model(tmp_path, wiring="pre_norm", decoding={"max_length": 9})
    weights = safetensors.numpy.load_file(tmp_path / "weights.safetensors")
    weights[name] = numpy.ascontiguousarray(change(weights[name]))
    safetensors.numpy.save_file(weights, tmp_path / "weights.safetensors")
    assert_one_line(call("run", directory, "w1"), told)


# lines


def test_unknown_tokens_are_counted_at_the_end(call, model):
    result = call("run", model, stdin="w1 w2 ß\nw3 漢字 ß\n".encode())
    assert result.err == "regard: 3 of 6 tokens are unknown to the model: 'ß', '漢字'\n"
    assert result.code == 0


@pytest.mark.parametrize("runtime", ["ctranslate2", "torch"])
def test_a_long_line_is_split_where_sentences_end(call, tmp_path, runtime):
    sentence = " ".join(f"w{number % 29}" for number in range(400))
    directory = write_model(tmp_path / runtime, ending=3.0, decoding={"max_length": 9})
    answer = regard.load(directory)(sentence + ".")
    lines = ["w1", ". ".join([sentence] * 3) + ".", "w2"]
    result = call("run", directory, "--runtime", runtime, stdin="\n".join(lines).encode())
    first, long, last = result.out.splitlines()
    pieces = [f"{sentence}. {sentence}. ", f"{sentence}."]
    assert long == " ".join(regard.load(directory)(pieces))
    assert long.endswith(answer)
    assert [first, last] == regard.load(directory)(["w1", "w2"])


@pytest.mark.parametrize("options", [[], ["--json"], ["--n-best", "2"]])
def test_a_line_that_cannot_be_split_is_refused_by_number_and_its_neighbours_are_answered(call, model, options):
    result = call("run", model, *options, stdin=b"w1\n" + b"w2 " * 1025 + b"\nw3\n")
    assert result.code == 2
    assert "regard: line 2 has 1,025 tokens, and " in result.err
    assert result.err.splitlines()[-1] == "regard: 1 of 3 lines have an empty answer: see above"
    alone = [call("run", model, *options, stdin=text).out for text in (b"w1\n", b"w3\n")]
    lines = result.out.splitlines()
    before, after = (out.splitlines() for out in alone)
    same_lines(lines[: len(before)], before)
    same_lines(lines[-len(after) :], after)
    assert len(lines) == len(before) + len(after) + 1


def same_lines(found, expected):
    """Lines of text are equal; lines of JSON are equal up to the rounding of scores."""
    for line, other in zip(found, expected, strict=True):
        if not other.startswith("{"):
            assert line == other
            continue
        answers = json.loads(line).pop("answers"), json.loads(other).pop("answers")
        scores = [[answer.pop("score") for answer in each] for each in answers]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        assert answers[0] == answers[1]


def test_a_line_that_is_wrong_is_named_after_the_answers_before_it(call):
    model = regard.load(reversing("seq2seq").path)
    surface = type(model.surface)
    parse = surface.parse

    def picky(self, line):
        if line == "bad":
            raise regard.RegardError("there is something wrong")
        return parse(self, line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "parse", picky)
        result = call("run", model.path, stdin=b"abc\nde\nbad\nab\n")
    assert (result.code, result.out.splitlines()) == (2, model(["abc", "de"]))
    assert result.err == "regard: line 3: there is something wrong\n"


def test_a_line_that_the_engine_refuses_is_named_too(call):
    model = regard.load(reversing("seq2seq").path)
    answer = type(model.task).answer

    def picky(self, module, asked, options):
        if "bad" in asked:
            raise regard.RegardError("there is something wrong")
        return answer(self, module, asked, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.task), "answer", picky)
        result = call("run", model.path, stdin=b"abc\nde\nbad\nab\n")
    assert (result.code, result.out.splitlines()) == (2, model(["abc", "de"]))
    assert result.err == "regard: line 3: there is something wrong\n"


# scoring data of another form


def test_evaluate_reads_other_columns(call, tmp_path):
    model = reversing("transformer")
    file = tmp_path / "test.csv"
    file.write_text("german,english\nab,ba\nabc,cba\n")
    columns = ["--set", "data.columns.source=german", "--set", "data.columns.target=english"]
    assert call("evaluate", model.path, "--data", file, *columns).code == 0
    assert_one_line(call("evaluate", model.path, "--data", file), "test.csv has no column 'source'")
    assert_one_line(call("evaluate", model.path, "--set", "model.width=3"), "only keys of [data]")
