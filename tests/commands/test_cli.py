import json
import os
import signal
import subprocess
import sys
import warnings

import pytest

import regard
import tiny_bert
from regard import cli
from small_models import copying, reversing, reversing_recipe, write_pairs

COMMANDS = [command.name or command.callback.__name__ for command in cli.app.registered_commands]
QUICK = ["--set", "training.steps=4", "--set", "training.validate_every=0", "--set", "decoding.max_length=5"]


def assert_told(result, *told):
    """Exit code 2, and one line on standard error that says this, after the lines that say what is being done."""
    assert result.code == 2
    *before, last = result.err.splitlines()
    assert all(line.endswith(" …") for line in before)
    assert last.startswith("regard: ")
    assert result.err.endswith("\n")
    assert result.out == ""
    for part in told:
        assert part in last


# what there is


def test_the_version(call):
    assert call("--version") == (0, f"regard {regard.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help(call, arguments):
    result = call(*arguments)
    assert result.code == 0
    assert "Usage: regard" in result.out
    assert result.err == ""


def test_help_names_every_command(call):
    listed = call("--help").out
    assert len(COMMANDS) >= 6
    assert [name for name in COMMANDS if f" {name} " not in listed] == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["models"]], ids=" ".join)
def test_what_needs_no_torch_does_not_import_it(arguments):
    script = (
        "import sys; from regard import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "sys.exit(3 if 'torch' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True).returncode == 0


@pytest.mark.parametrize(("command", "name"), [("recipes", "pairs"), ("models", "transformer")])
def test_lists_are_a_line_each_or_json(call, command, name):
    lines, table = call(command).out.splitlines(), json.loads(call(command, "--json").out)
    assert [line.split()[0] for line in lines] == list(table)
    assert name in table
    assert all(table.values())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["frobnicate"], "No such command 'frobnicate'; see: regard --help"),
        (["--frobnicate"], "No such option: --frobnicate"),
        (["run"], "Missing argument 'MODEL'; see: regard run --help"),
        (["run", "model", "--beam", "0"], "Invalid value for '--beam'"),
        (["run", "model", "--beam", "many"], "Invalid value for '--beam'"),
        (["evaluate", "model", "--source", "only.txt"], "--source and --target"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_told_on_one_line(call, arguments, told):
    assert_told(call(*arguments), told)


# bad input to training


def test_bad_data_is_told_on_one_line(call, tmp_path):
    recipe = reversing_recipe(tmp_path)
    bad = {
        "binary.tsv": (b"\x7fELF\0\0\1\2" * 100, "is a binary file"),
        "latin1.tsv": ("café\tcoffee\n".encode("latin-1"), "latin1.tsv:1 is not UTF-8"),
        "empty.tsv": (b"", "is empty"),
        "long.tsv": (b"a" * 1_000_001 + b"\tb\n", "long.tsv:1 is a line of 1 MB or more"),
        "one.tsv": (b"a\tb\nno partner\n", "one.tsv:2 has no tab"),
        "blank.tsv": (b"\n\n\n", "0 examples"),
        "broken.tsv.gz": (b"\x1f\x8b\x08\0broken", "is damaged gzip"),
        "broken.jsonl": (b'{"source": "a"}\n', "broken.jsonl:1 has no key 'target'"),
        "broken.parquet": (b"PAR1 and no more", "is not a sound Parquet file"),
    }
    for name, (content, told) in bad.items():
        (tmp_path / name).write_bytes(content)
        result = call("train", recipe, "-o", tmp_path / "out", "--set", f"data.train={tmp_path / name}")
        assert_told(result, name.replace("blank.tsv", ""), told)


def test_files_of_unequal_length_are_told_with_their_numbers_of_lines(call, tmp_path):
    (tmp_path / "long.txt").write_text("a\nb\nc\n")
    (tmp_path / "short.txt").write_text("a\nb\n")
    recipe = reversing_recipe(tmp_path)
    files = f'{{source="{tmp_path}/long.txt", target="{tmp_path}/short.txt"}}'
    result = call("train", recipe, "-o", tmp_path / "out", "--set", f"data.train={files}")
    assert_told(result, "long.txt has 3 lines", "short.txt has 2")


@pytest.mark.parametrize("key", ["train", "valid", "test"])
def test_a_missing_file_is_told_whatever_it_is_for(call, tmp_path, key):
    recipe = reversing_recipe(tmp_path)
    result = call("train", recipe, "-o", tmp_path / "out", "--set", f"data.{key}=nowhere.tsv")
    assert_told(result, "nowhere.tsv does not exist")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("training.stepz=4", "key 'training.stepz' is unknown; did you mean 'training.steps'"),
        ("model.depth=4", "key 'model.depth' is unknown"),
        ("model.kind=transfomer", "did you mean 'transformer'"),
        ("training.steps=many", "training.steps = 'many'"),
        ("training.steps=-4", "training.steps = -4"),
        ("training.steps", "expected KEY=VALUE"),
        ("task.translate=1", "task"),
        ("model.heads=5", "heads"),
        ("data.train=[]", "data.train is missing"),
        ("training.device=abacus", "abacus"),
    ],
)
def test_a_wrong_change_is_told_by_its_key(call, tmp_path, change, told):
    recipe = reversing_recipe(tmp_path)
    assert_told(call("train", recipe, "-o", tmp_path / "out", "--set", change), told)


def test_a_recipe_that_is_not_there_or_not_sound_is_told(call, tmp_path):
    assert_told(call("train", "pears"), "recipe 'pears' is unknown; did you mean 'pairs'")
    assert_told(call("train", tmp_path / "no.toml"), "no.toml does not exist")
    (tmp_path / "bad.toml").write_text("task = translate")
    assert_told(call("train", tmp_path / "bad.toml"), "bad.toml is not TOML")
    (tmp_path / "key.toml").write_text('[model]\nkind = "transformer"\n[trainin]\nsteps = 3')
    assert_told(call("train", tmp_path / "key.toml"), "key.toml: key 'trainin' is unknown; did you mean 'training'")


def test_a_directory_that_cannot_be_written_is_told(call, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    recipe = reversing_recipe(tmp_path)
    assert_told(call("train", recipe, "-o", tmp_path / "file" / "out", *QUICK), "choose another directory with -o")
    assert_told(call("train", recipe, "-o", tmp_path / "file", *QUICK), "choose another directory with -o")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_the_right_to_write_is_told(call, tmp_path):
    (tmp_path / "mine").mkdir(mode=0o500)
    recipe = reversing_recipe(tmp_path)
    assert_told(call("train", recipe, "-o", tmp_path / "mine" / "out", *QUICK), "choose another directory with -o")


@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_a_directory_that_is_no_model_is_told(call, tmp_path, command):
    assert_told(call(command, tmp_path), "is not a model directory")
    assert_told(call(command, tmp_path / "nowhere"), "is not a model directory")


# training


def test_training_says_what_it_does_and_what_to_try(call, tmp_path):
    recipe, out = reversing_recipe(tmp_path), tmp_path / "out"
    first = call("train", recipe, "-o", out, *QUICK)
    assert first.code == 0
    assert "train: 540 pairs read, 540 kept" in first.err
    assert "vocabulary: 9 tokens" in first.err
    assert "model: transformer, 21,664 parameters" in first.err
    assert "trained for 4 steps: all 4 steps are made" in first.out
    assert "scores on what was held out of data.train:" in first.out
    assert "|tok:13a|" in first.out
    assert f"regard run {out}" in first.out
    again = call("train", recipe, "-o", out, *QUICK)
    assert "nothing is left to do" in again.err
    assert again.out == first.out
    assert_told(call("train", recipe, "-o", out, *QUICK, "--set", "model.width=34"), "model.width: 32 → 34")


def test_a_damaged_checkpoint_is_a_warning_of_one_line(call, tmp_path):
    recipe, out = reversing_recipe(tmp_path), tmp_path / "out"
    call("train", recipe, "-o", out, *QUICK, "--set", "training.checkpoint_every=2")
    (newest,) = (out / "checkpoints").glob("step-*")
    (newest / "training.safetensors").write_bytes(b"no")
    (out / "report.json").unlink()
    with pytest.warns(UserWarning, match="is damaged") as caught:
        assert call("train", recipe, "-o", out, *QUICK, "--set", "training.checkpoint_every=2").code == 0
    line = warnings.formatwarning(caught[0].message, UserWarning, "a file", 1)
    assert line.startswith(f"regard: {newest} is damaged")
    assert line.count("\n") == 1


def test_ctrl_c_saves_and_the_same_command_goes_on(call, tmp_path):
    recipe, out = reversing_recipe(tmp_path, steps=200), tmp_path / "out"
    command = ["train", str(recipe), "-o", str(out), "--set", "training.validate_every=0"]
    before = []
    with subprocess.Popen(
        [sys.executable, "-m", "regard.cli", *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stderr:
            before.append(line)
            if line.startswith("step 1/"):
                process.send_signal(signal.SIGINT)
                break
        after = process.stderr.read()
    assert process.returncode == 130, "".join(before) + after
    assert "finishing this step and saving" in after
    assert after.splitlines()[-1].startswith("regard: stopped at step ")
    assert f"all is saved in {out}; run the same command to resume" in after
    assert not (out / "weights.safetensors").exists()

    result = call(*command)
    assert result.code == 0
    assert "step 1/" not in result.err
    assert regard.load(out).report["steps"] == 200


# answering


def test_lines_in_are_lines_out_in_order(call):
    model = reversing("transformer")
    lines = ["abc", "", "dd\u2028a", "edc", " "]
    result = call("run", model.path, stdin="abc\n\ndd\u2028a\r\nedc\n ".encode())
    told = "regard: 1 of 10 tokens are unknown to the model: '\\u2028'\n"
    assert result == (0, "".join(f"{answer}\n" for answer in model(lines)), told)
    assert result.out.count("\n") == 5


def test_nothing_in_is_nothing_out(call):
    assert call("run", reversing("transformer").path, stdin=b"") == (0, "", "")


def test_texts_may_be_arguments(call):
    model = reversing("transformer")
    assert call("run", model.path, "abc", "de").out.splitlines() == model(["abc", "de"])


def test_lines_that_are_not_utf_8_are_told(call):
    model = reversing("transformer")
    result = call("run", model.path, stdin=b"abc\nd\xe9e\nde\n")
    assert (result.code, result.out) == (2, f"{model('abc')}\n")
    assert "line 2 of standard input is not UTF-8" in result.err


def test_json_tells_everything_about_each_line(call):
    model = copying()
    text = "big zebra sees cat"
    result = call("run", model.path, "--json", "--alignment", "--n-best", 2, stdin=f"{text}\n\n".encode())
    first, empty = map(json.loads, result.out.splitlines())
    assert first["input"] == text
    assert first["answers"][0]["score"] >= first["answers"][1]["score"]
    assert first["answers"][0]["tokens"] == first["answers"][0]["text"].split()
    assert first["answers"][0]["alignment"] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert empty == {"input": "", "answers": [{"text": "", "score": 0.0, "tokens": [], "alignment": []}]}


def test_n_best_gives_scores_and_each_answer_its_own_alignment(call):
    rows = call("run", copying().path, "--n-best", 4, "--alignment", "red old dog").out.splitlines()
    assert len(rows) == 4
    for row in rows:
        answer, score, pairs = row.split("\t")
        assert float(score) < 0
        assert [int(pair.split("-")[1]) for pair in pairs.split()] == list(range(len(answer.split())))


def test_sampling_is_repeated_by_its_seed(call):
    model = reversing("transformer")
    options = ["--sample", "--temperature", 5, "abcde", "edcba"]
    drawn = [call("run", model.path, *options, "--seed", seed).out for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert_told(call("run", model.path, "--temperature", 5, "abc"), "temperature=5.0 does nothing without sample=true")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--replace-unknown"], "big zebra sees cat"),
        (["--prefix", "old"], "old"),
        (["--max-length", "2"], "big <unk>"),
        (["--beam", "1"], "big <unk> sees cat"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_of_run(call, options, expected):
    out = call("run", copying().path, *options, "big zebra sees cat").out
    assert out.startswith(expected) if "--prefix" in options else out == f"{expected}\n"


def test_an_answer_with_a_line_end_stays_one_line(call, tmp_path):
    rows = [{"source": letter, "target": "one\ntwo"} for letter in "abcdefgh"] * 5
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = reversing_recipe(tmp_path, kind="seq2seq", steps=30)
    changes = [f"data.train={tmp_path}/pairs.jsonl", "data.hold_out=5", "training.validate_every=0"]
    path = regard.train(recipe, out=tmp_path / "out", changes=changes).path
    assert call("run", path, "a").out == "one two\n"
    assert json.loads(call("run", path, "--json", "a").out)["answers"][0]["text"] == "one\ntwo"


def test_a_reader_that_has_seen_enough_is_no_error():
    model = reversing("transformer")
    command = [sys.executable, "-m", "regard.cli", "run", str(model.path), "--beam", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"abc\n" * 5000)
        process.stdin.close()
        assert process.stdout.readline().decode() == f"{model('abc')}\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("runtime", ["ctranslate2", "torch"])
def test_a_pipe_that_stays_open_is_answered_as_it_goes(runtime):
    model = reversing("transformer")
    command = [sys.executable, "-m", "regard.cli", "run", str(model.path), "--runtime", runtime]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for text in ("abc", "de", "edcba"):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{model(text)}\n"
        process.stdin.write("ab\né".encode("latin-1"))
        process.stdin.close()
        assert process.stdout.readline().decode() == f"{model('ab')}\n"
    assert process.returncode == 2


# scoring


def test_scores_as_text_and_as_json(call, tmp_path):
    model = reversing("transformer")
    file = write_pairs(tmp_path / "test.tsv", [("abc", "cba"), ("de", "ed"), ("ea", "no")])
    expected = model.evaluate(file)
    lines = call("evaluate", model.path, "--data", file).out.splitlines()
    assert [line.split()[0] for line in lines] == list(expected) == ["bleu", "chrf", "ter", "exact"]
    assert [float(line.split()[1]) for line in lines] == [round(score.value, 2) for score in expected.values()]
    assert all(line.endswith(score.signature) for line, score in zip(lines, expected.values(), strict=True))
    found = json.loads(call("evaluate", model.path, "--data", file, "--json").out)
    assert found == {name: {"value": s.value, "signature": s.signature} for name, s in expected.items()}


def test_in_a_terminal_a_bar_counts_the_examples_and_the_scores_stay_on_standard_output(call, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # for which rich takes standard error for a terminal
    monkeypatch.setenv("TERM", "xterm")
    file = write_pairs(tmp_path / "test.tsv", [("abc", "cba"), ("de", "ed"), ("ea", "no")])
    found = call("evaluate", reversing("transformer").path, "--data", file, "--json")
    assert json.loads(found.out).keys() == {"bleu", "chrf", "ter", "exact"}
    assert "answering the examples" in found.err
    assert "3/3" in found.err


def test_evaluating_without_a_file_gives_the_scores_of_training(call):
    model = reversing("seq2seq")
    found = json.loads(call("evaluate", model.path, "--json").out)
    assert {name: score["value"] for name, score in found.items()} == model.report["scores"]


def test_two_files_and_tokenised_text(call, tmp_path):
    model = reversing("transformer")
    (tmp_path / "source").write_text("abcd\nde\n")
    (tmp_path / "target").write_text("".join(f"{answer}\n" for answer in model(["abcd", "de"])))
    files = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    out = call("evaluate", model.path, *files, "--tokenized", "--beam", 5).out
    assert "tok:none" in out
    assert out.splitlines()[-1].split()[:2] == ["exact", "100.00"]


def test_two_models_against_each_other(call, tmp_path):
    first, second = reversing("transformer").path, reversing("seq2seq").path
    file = write_pairs(tmp_path / "test.tsv", [("abc", "cba"), ("de", "ed")])
    table = call("evaluate", first, "--against", second, "--data", file).out
    assert str(first) in table
    assert str(second) in table
    found = json.loads(call("evaluate", first, "--against", second, "--data", file, "--json").out)
    assert all(set(row) == {"first", "second", "difference", "low", "high", "p"} for row in found.values())
    assert [line.split()[0] for line in table.splitlines()[3:]] == list(found)


@pytest.mark.parametrize("data", ["nowhere.tsv", "folder", "one.tsv"])
def test_a_test_file_that_cannot_be_read_is_told(call, tmp_path, data):
    (tmp_path / "folder").mkdir()
    (tmp_path / "one.tsv").write_text("no partner\n")
    assert_told(call("evaluate", reversing("transformer").path, "--data", tmp_path / data), data)


# models from elsewhere, and tasks that answer with something other than a text


def test_a_model_is_imported_run_and_exported(call, tmp_path):
    tiny_bert.save(tmp_path / "theirs")
    imported = call("import", tmp_path / "theirs", "-o", tmp_path / "ours")
    assert imported.code == 0
    assert 'task = "embed"' in imported.out
    result = call("run", tmp_path / "ours", "a cat", "", "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["input"] for line in lines] == ["a cat", ""]
    assert all(len(line["answers"]) == 24 for line in lines)
    assert len(call("run", tmp_path / "ours", stdin=b"a cat\n").out.split()) == 24
    assert call("export", tmp_path / "ours", tmp_path / "back", "--to", "huggingface").code == 0
    assert (tmp_path / "back" / "config.json").exists()
    assert_told(call("run", tmp_path / "ours", "a", "--beam", "3"), "answers with vectors", "--beam")
    assert_told(call("evaluate", tmp_path / "ours"), "names no data to score it on")
    assert_told(call("import", tmp_path / "none", "-o", tmp_path / "x"), "neither a directory nor an installed package")


def test_a_classifier_is_trained_run_and_evaluated(call, tmp_path):
    tiny_bert.save(tmp_path / "body")
    data = tmp_path / "films.tsv"
    lines = [f"{word} {noun}\t{word}" for word in ("good", "bad") for noun in ("cat", "dog", "film")]
    data.write_text("sentence\tlabel\n" + "\n".join(lines))
    changes = ["training.steps=2", "training.validate_every=0", "training.average_of=last", f"data.train={data}"]
    changes += [f"data.valid={data}", f"model.body={tmp_path / 'body'}", "data.max_length=20"]
    call("train", "sst2", "-o", tmp_path / "model", *(part for change in changes for part in ("--set", change)))
    result = call("run", tmp_path / "model", "good film", "--json")
    assert {each["label"] for each in json.loads(result.out)["answers"]} == {"good", "bad"}
    label, score = call("run", tmp_path / "model", "good film").out.split()
    assert label in ("good", "bad")
    assert 0 < float(score) < 1
    assert {"accuracy", "f1"} == json.loads(call("evaluate", tmp_path / "model", "--data", data, "--json").out).keys()
    assert_told(call("evaluate", tmp_path / "model", "--beam", "3"), "--beam is for models of pairs")
