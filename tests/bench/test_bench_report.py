"""Results are kept whole, and tables say what the figures say."""

from pathlib import Path

import pytest
from rich.console import Console

from bench import options, report
from bench.results import Result, Row, Table, load_all
from bench.tables import cells, markdown, show, verdicts

OURS, SLOW, FAST = (
    Row("regard", [300.0, 330.0, 270.0], ours=True),
    Row("slow peer", [100.0, 110.0, 90.0]),
    Row("fast peer", [200.0, 100.0, 200.0]),
)
LOUD = Row("peer that is not judged", [1000.0, 1000.0, 1000.0], judged=False)
TABLE = Table("learning", "tokens/s", [OURS, SLOW, FAST, LOUD], flops=1e8, notes=["a note"])
RESULT = Result(
    work="train-tiny",
    about="What was measured.",
    command="python -m bench train-tiny --data multi30k",
    date="2020-02-02 12:00 UTC",
    machine={"cpu": "A CPU", "cores": 2, "threads": 2, "instructions": ["avx2"]},
    tables=[TABLE],
    limits={"float32": [100.0, 100.0, 120.0]},
    versions={"regard": {"torch": "2.13.0"}, "slow peer": {"torch": "2.13.0", "slow": "1.0"}},
    notes=["another peer did not start"],
)


def test_the_best_peer_is_the_one_with_the_best_median_among_the_judged():
    assert TABLE.best_peer() == FAST
    assert Table("seconds", "s", TABLE.rows, higher=False).best_peer() == SLOW


def test_the_ratio_to_a_peer_is_the_median_of_the_ratios():
    assert TABLE.ratio(OURS, FAST).median == 1.5  # of 1.5, 3.3 and 1.35; the ratio of medians would hide the 3.3
    assert TABLE.ratio(OURS, FAST).high == pytest.approx(3.3)
    assert verdicts(TABLE) == ["regard: 1.50 [1.35–3.30] × the best peer, fast peer"]


def test_the_share_of_the_limit_is_rate_times_cost_over_the_limit():
    assert TABLE.share(OURS, 100.0) == pytest.approx(300 * 1e8 / 100e9)
    assert cells(TABLE, SLOW, {"float32": 100.0}) == ["slow peer", "100 [90–110]", "3.00", "10% float32"]


def test_a_result_comes_back_from_its_file_as_it_was(tmp_path: Path):
    RESULT.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train-tiny.json"]
    assert load_all(tmp_path) == [RESULT]


def test_a_section_gives_command_date_and_machine_beside_every_row():
    text = markdown(RESULT)
    for said in (
        "python -m bench train-tiny --data multi30k",
        "2020-02-02 12:00 UTC, A CPU, 2 cores, 2 threads (avx2)",
        "| regard | 300 [270–330] |  | 30% float32 |",
        "| fast peer | 200 [100–200] | 1.50 [1.35–3.30] | 20% float32 |",
        "- a note",
        "- another peer did not start",
        "- versions: slow 1.0, torch 2.13.0",
        "100 [100–120] GFLOP/s in float32",
    ):
        assert said in text


def test_the_page_is_written_from_result_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "speed.md"
    with pytest.raises(SystemExit):
        report.main(["--results", str(tmp_path / "none"), "--out", str(page)])
    assert "holds no results" in capsys.readouterr().err
    assert not page.exists()
    RESULT.save(tmp_path / "results")
    report.main(["--results", str(tmp_path / "results"), "--out", str(page)])
    assert page.read_text().count("## train-tiny") == 1


def test_the_terminal_shows_every_system(capsys: pytest.CaptureFixture[str]):
    show(RESULT, Console(width=200))
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in TABLE.rows)


def test_the_command_of_a_result_can_be_given_again_and_names_no_folder():
    given = options.read(
        options.parser("decode", None), ["--data", "/some/where/multi30k", "--only=a/b", "--json", "--threads", "1"]
    )
    assert given.command == "python -m bench decode --data multi30k --only=b --threads 1"
