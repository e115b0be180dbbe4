"""`regard look`: the terminal, files, word alignments, and what it refuses."""

import json
import threading
import urllib.request

import pytest
from rich.console import Console

from regard.commands.look import run
from regard.errors import RegardError
from regard.look.record import Record
from regard.look.terminal import show
from regard.serve.live import LivePage
from small_models import copying, reversing

WORD = "badce"
NOTHING = {"layer": None, "head": None, "reference": None}


def look(*arguments, out=None, pharaoh=False, statistics=None, **options):
    names = [str(argument.path) if hasattr(argument, "path") else argument for argument in arguments]
    run(names, out=out, options={**NOTHING, **options}, pharaoh=pharaoh, statistics=statistics, port=0)


def test_a_pipe_gets_blocks_and_the_answer_and_no_colour(capsys):
    model = reversing("transformer")
    look(model, WORD)
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == model(WORD)
    assert "decoder.blocks.0.cross, mean of" in shown
    assert set("░▒▓█") & set(shown)
    assert "\x1b" not in shown


def test_a_terminal_gets_colour():
    console = Console(force_terminal=True, color_system="truecolor", width=100)
    with console.capture() as shown:
        show(reversing("transformer").look(WORD), console)
    assert "\x1b[48;2;" in shown.get()


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_a_file_by_its_ending(kind, tmp_path):
    model = reversing(kind)
    for ending in (".json", ".html", ".svg"):
        look(model, WORD, out=tmp_path / f"look{ending}")
    record = Record.load(tmp_path / "look.json")
    assert record.sides["source"].items == (*WORD, "</s>")
    assert record.model["kind"] == kind
    assert record.beam is not None
    assert 'id="records"' in (tmp_path / "look.html").read_text("utf-8")


def test_one_layer_and_one_head(tmp_path):
    model = reversing("transformer")
    look(model, WORD, out=tmp_path / "look.json", layer=0, head=1)
    assert {(each.layer, each.heads) for each in Record.load(tmp_path / "look.json").maps} == {(0, (1,))}
    with pytest.raises(RegardError, match="no weights of that layer or head"):
        look(model, WORD, layer=5)


def test_a_reference_is_aligned_instead_of_the_answer(capsys):
    look(copying(), "the red cat sees", pharaoh=True, reference="red cat")
    pairs = [pair.split("-") for pair in capsys.readouterr().out.split()]
    assert [target for _, target in pairs] == ["0", "1"]
    assert {source for source, _ in pairs} <= {"0", "1", "2", "3"}


def test_what_heads_do_is_averaged_over_the_lines_of_a_file(tmp_path):
    (tmp_path / "lines.txt").write_text("abc\n\nbade\n")
    look(reversing("transformer"), WORD, out=tmp_path / "look.json", statistics=tmp_path / "lines.txt")
    assert Record.load(tmp_path / "look.json").statistics["sentences"] == 2


def test_two_models_are_a_page_and_nothing_else(tmp_path):
    models = reversing("transformer"), reversing("seq2seq")
    look(*models, WORD, out=tmp_path / "both.html")
    assert (tmp_path / "both.html").read_text("utf-8").count('"format":"regard.record"') == 2
    with pytest.raises(RegardError, match=r"ends in \.html"):
        look(*models, WORD, out=tmp_path / "both.png")


def test_what_is_no_model_or_in_the_wrong_order_is_refused(tmp_path):
    with pytest.raises(RegardError, match="is not a model directory"):
        look(str(tmp_path), WORD)
    with pytest.raises(RegardError, match="model directories, then one text"):
        look(WORD, reversing("transformer"))


def test_the_live_page_is_refused_for_models_that_read_files(monkeypatch):
    model = reversing("transformer")
    monkeypatch.setattr(type(model.surface), "files", True)
    monkeypatch.setattr(type(model.surface), "example", "photo.jpg")
    with pytest.raises(RegardError, match=r"looks at files.* photo\.jpg -o look\.html"):
        look(model)


def test_two_models_answer_live_side_by_side():
    models = reversing("transformer"), reversing("seq2seq")
    page = LivePage([lambda text, _, model=model: model.look(text) for model in models])
    thread = threading.Thread(target=page.run, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{page.port}/look"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps({"text": WORD}).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        records = [Record.from_json(each) for each in json.load(answer)]
    page.stop()
    thread.join()
    assert [record.answer.text for record in records] == [model(WORD) for model in models]
    assert [record.model["kind"] for record in records] == ["transformer", "seq2seq"]
