"""One sentence at a time: our process and the one of CTranslate2 by hand give the same answers to the same lines."""

import json
import sys

from bench import peers
from bench.worker import System, Worker
from made_models import WORDS, write_model
from regard.interchange.ctranslate2 import convert

LINES = [" ".join(WORDS[begin : begin + length]) for begin, length in ((0, 5), (7, 1), (11, 9))]


def asked(script, **settings):
    """The answers and times of a script that runs here instead of in its own environment."""
    command = [sys.executable, str(peers.script(script))]
    with Worker(System(script, script), threads=1, command=command) as worker:
        worker.ask("prepare", **settings)
        return worker.ask("run", lines=LINES)


def test_both_answer_each_line_alone_and_alike(tmp_path):
    model = write_model(tmp_path / "model", shared=True, decoding={"beam": 2})
    folder = tmp_path / "by hand"
    folder.mkdir()
    for name, content in convert(model).items():
        (folder / name).write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "add_source_eos": False}))  # whoever asks adds it
    by_hand = {"folder": str(folder), "tokenizer": str(model / "tokenizer.json"), "beam": 2}
    ours = asked("regard_one", path=str(model))
    theirs = asked("ctranslate2_one", **by_hand, precision="float32", intra=1)
    assert ours["answers"] == theirs["answers"]
    assert any(ours["answers"])
    assert len(ours["seconds"]) == len(LINES)
    assert min(*ours["seconds"], *theirs["seconds"]) > 0
