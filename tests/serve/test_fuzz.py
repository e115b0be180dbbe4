"""What schemathesis makes of the server's own OpenAPI is never answered with a 5xx, and the load of the bench runs."""

from pathlib import Path

from serving import serving

from bench.serve import fuzzed, main
from made_models import WORDS, write_model

REQUESTS = 150


def test_generated_requests_are_never_answered_with_a_server_error(tmp_path: Path):
    model = write_model(tmp_path / "tiny", ending=4.0, decoding={"beam": 1, "max_length": 4})
    with serving(model, "--workers", "1") as server:
        assert fuzzed(server.port, REQUESTS, seed=1) >= REQUESTS


def test_the_load_of_the_bench(tmp_path: Path, capsys):
    model = write_model(tmp_path / "tiny", ending=4.0, decoding={"beam": 1, "max_length": 4})
    (tmp_path / "texts").write_text("".join(f"{word} {word}\n" for word in WORDS))
    arguments = ["--model", str(model), "--texts", str(tmp_path / "texts"), "--clients", "4", "--requests", "40"]
    main([*arguments, "--grow", "20", "--workers", "1"])
    printed = capsys.readouterr().out
    assert all(row in printed for row in ("singles", "lists", "plain"))
    assert "first answer after" in printed
