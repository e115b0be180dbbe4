"""What schemathesis makes of the server's own OpenAPI is never answered with a 5xx, and the load of the bench runs."""

from pathlib import Path

import pytest
from serving import serving

from bench.results import Result
from bench.serve import main
from bench.serve_fuzz import fuzzed
from bench.tables import markdown
from made_models import WORDS, write_model

REQUESTS = 150


def test_generated_requests_are_never_answered_with_a_server_error(tmp_path: Path):
    model = write_model(tmp_path / "tiny", ending=4.0, decoding={"beam": 1, "max_length": 4})
    with serving(model, "--workers", "1") as server:
        assert fuzzed(server.port, REQUESTS, seed=1) >= REQUESTS


def test_the_load_of_the_bench_is_a_result_that_the_report_can_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = write_model(tmp_path / "tiny", ending=4.0, decoding={"beam": 1, "max_length": 4})
    (tmp_path / "texts").write_text("".join(f"{word} {word}\n" for word in WORDS))
    main(
        [
            "--model",
            str(model),
            "--texts",
            str(tmp_path / "texts"),
            "--clients",
            "4",
            "--threads",
            "1",
            "--quick",
            "--json",
        ]
    )
    result = Result.from_json(capsys.readouterr().out)
    singles, lists, more, start = result.tables
    assert [len(table.rows) for table in (singles, lists, more, start)] == [2, 3, 2, 1]
    assert all("0 failed, 0 of " in note for table in (singles, lists, more) for note in table.notes)
    assert "| regard serve |" in markdown(result)
    assert str(tmp_path) not in markdown(result)
