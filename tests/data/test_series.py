"""Tables of series: times, frequencies, gaps and everything that may be wrong with a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.series import dates
from regard.data.series.frequency import Frequency, infer
from regard.data.series.series import Series
from regard.data.series.table import Columns, read
from regard.errors import RegardError


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "steps", "season", "first", "last", "total"),
    [
        ("airline", 144, 12, "1949-01-01", "1960-12-01", 40363),
        ("sunspots", 309, 1, "1700", "2008", 15373.4),
        ("co2", 444, 12, "1965-01-01", "2001-12-01", None),
    ],
)
def test_bundled_series_are_whole(
    name: str, steps: int, season: int, first: str, last: str, total: float | None
) -> None:
    (series,) = read(f"series:{name}")
    assert (len(series), series.frequency.season) == (steps, season)
    assert [*series.texts(0, 1), *series.texts(steps - 1, steps)] == [first, last]
    assert total is None or series.values.sum() == pytest.approx(total)


def test_an_unknown_bundled_series_is_named_with_the_nearest() -> None:
    with pytest.raises(RegardError, match=r"series:airlin.*did you mean 'series:airline'"):
        read("series:airlin")


@pytest.mark.parametrize(
    ("texts", "frequency", "season", "following"),
    [
        (["2020-01", "2020-02", "2020-03"], Frequency("month", 1), 12, "2020-04-01"),
        (["2020-01-31", "2020-02-29", "2020-03-31"], Frequency("month", 1, -1), 12, "2020-04-30"),
        (["2020-01-15", "2020-02-15", "2020-03-15"], Frequency("month", 1, 14 * 86400), 12, "2020-04-15"),
        (["2020Q1", "2020Q2", "2020Q3"], Frequency("month", 3), 4, "2020-10-01"),
        (["2018-01-01", "2019-01-01", "2020-01-01"], Frequency("month", 12), 1, "2021-01-01"),
        (["2020-01-04", "2020-01-11", "2020-01-18"], Frequency("day", 7), 52, "2020-01-25"),
        (["20200228", "20200229", "20200301"], Frequency("day", 1), 7, "2020-03-02"),
        (["2020-01-02", "2020-01-03", "2020-01-06", "2020-01-07"], Frequency("business", 1), 5, "2020-01-08"),
        (["2020/1/1 22:00", "2020/1/1 23:00", "2020/1/2 00:00"], Frequency("second", 3600), 24, "2020-01-02 01:00:00"),
        (
            ["2020-01-01T00:00:00Z", "2020-01-01T00:15:00+00:00", "2020-01-01 00:30+0000"],
            Frequency("second", 900),
            96,
            None,
        ),
        (["1700", "1701", "1702"], Frequency("step", 1), 1, "1703"),
        (["0", "10", "20"], Frequency("step", 10), 1, "30"),
    ],
)
def test_the_frequency_is_found(texts: list[str], frequency: Frequency, season: int, following: str | None) -> None:
    times = dates.parse(texts, texts)
    found = infer([times])
    assert (found, found.season) == (frequency, season)
    positions = found.positions(times)
    assert (numpy.diff(positions) == found.step).all()
    if found.unit != "step":
        assert (found.times(positions) == times).all()
    if following is not None:
        assert found.texts(positions[-1:] + found.step) == [following]


@given(st.integers(-40_000, 40_000), st.sampled_from(["month", "day", "business", "second"]))
def test_positions_and_times_are_each_others_inverse(position: int, unit: str) -> None:
    frequency = Frequency(unit, 1)  # type: ignore[arg-type]
    positions = numpy.array([position])
    assert frequency.positions(frequency.times(positions)) == positions


def test_the_calendar_is_the_angle_in_year_week_and_day() -> None:
    monthly = Frequency("month", 1).calendar(numpy.array([0, 3, 12]))
    assert monthly == pytest.approx(numpy.array([[0, 1], [1, 0], [0, 1]]), abs=1e-6)
    monday, thursday = Frequency("day", 1).calendar(numpy.array([4, 7]))[:, [0, 2]]  # 5 and 8 January 1970
    assert monday == pytest.approx([0, 1], abs=1e-6)
    assert thursday == pytest.approx([numpy.sin(6 * numpy.pi / 7), numpy.cos(6 * numpy.pi / 7)], abs=1e-6)
    assert Frequency("step", 1).calendar(numpy.arange(3)).shape == (3, 0)
    assert Frequency("second", 3600).calendar(numpy.array([6 * 3600]))[0, [0, 3]] == pytest.approx([1, 0], abs=1e-6)


LONG = "unique_id,ds,y\nb,2020-01,1\nb,2020-02,2\na,2020-03,5\na,2020-04,6\nb,2020-03,3\n"


@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv", "jsonl", "parquet", "timestamps.parquet"])
def test_every_form_of_a_long_table_holds_the_same_series(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form}"
    rows = [line.split(",") for line in LONG.splitlines()[1:]]
    if form == "csv":
        path.write_text(LONG)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(LONG.encode()))
    elif form == "tsv":
        path.write_text(LONG.replace(",", "\t"))
    elif form == "jsonl":
        path.write_text("".join(f'{{"unique_id": "{i}", "ds": "{t}", "y": {y}}}\n' for i, t, y in rows))
    else:
        times = numpy.array([t for _, t, _ in rows], "datetime64[s]") if "times" in form else [t for _, t, _ in rows]
        columns = {"unique_id": [i for i, _, _ in rows], "ds": times, "y": [float(y) for _, _, y in rows]}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    found = read(str(path))
    assert [(each.name, each.values.tolist(), each.texts(0, 1)) for each in found] == [
        ("a", [5, 6], ["2020-03-01"]),
        ("b", [1, 2, 3], ["2020-01-01"]),
    ]


def test_columns_of_numbers_are_series_of_their_own(tmp_path: Path) -> None:
    name = written(tmp_path / "a.csv", "note,when,cats,dogs\nx,2020-01-01,1,4\ny,2020-01-02,2,\nz,2020-01-03,3,6\n")
    found = read(name, fill="linear")
    assert [(each.name, each.values.tolist()) for each in found] == [("cats", [1, 2, 3]), ("dogs", [4, 5, 6])]
    (only,) = read(name, Columns(value="cats", time="when"))
    assert only.name == "cats"


def test_rows_in_any_order_are_sorted_with_a_warning(tmp_path: Path) -> None:
    name = written(tmp_path / "a.csv", "ds,y\n2020-03,3\n2020-01,1\n2020-02,2\n")
    with pytest.warns(UserWarning, match=r"a\.csv: rows not in order of time were sorted"):
        (series,) = read(name)
    assert series.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ds,y\n2020-01,1\n2020-02,x\n2020-03,3\n", r"a\.csv:3 has 'x' in the column 'y', and a number is expected"),
        ("ds,y\n2020-01,1\n2020-02,inf\n2020-03,3\n", r"a\.csv:3 has 'inf'"),
        ("ds,y\n2020-01,1\n2020-02,2\n2020-02,3\n", r"a\.csv:4 has the same time as row 3 of series 'y'"),
        ("ds,y\n2020-01,1\n2020-02,2\n2020-03,3\n2020-06,4\n", r"no value at 2020-04-01 \(2 of 6 steps.*data\.fill"),
        ("ds,y\n2020-01,1\n2020-02,\n2020-03,3\n", r"no value at 2020-02-01"),
        ("ds,y\n2020-01,1\n2020-13,2\n", r"a\.csv:3 has the time '2020-13', which is not one of the forms"),
        ("ds,y\n2020-01-30,1\n2020-02-30,2\n", r"a\.csv:3 has the time '2020-02-30'"),
        ("ds,y\n2020-01-01,1\n2020-01-02Z,2\n", r"a\.csv:3 has the time '2020-01-02Z' and .*a\.csv:2 has '2020-01-01'"),
        ("ds,y\n2020-01-01 00:00+02:00,1\n", r"a\.csv:2 has the time '2020-01-01 00:00\+02:00', which is not one"),
        ("unique_id,ds,y\na,2020-01,1\n ,2020-02,2\n", r"a\.csv:3 does not name its series"),
        ("ds,y\n31/01/2020,1\n29/02/2020,2\n", r"a\.csv:2 has the time '31/01/2020'"),
        ("ds,y\n2020-01-01,1\n2020-01-08,2\n2020-01-15,3\n2020-01-17,4\n", r"a\.csv:5: this time .* does not fit"),
        ("ds,y\n1,1\n2,2\n3,3\n999999999,4\n", r"check the times in rows 4 and 5"),
        ("ds,y\n2020-01,1\n", r"no series has two rows"),
        ("ds,y\n", r"a\.csv has no rows"),
        ("2020-01,1\n2020-02,2\n", r"a\.csv has no header: its first line is '2020-01,1'"),
        ("y\n1\n2\n", r"a\.csv has one column"),
        ("ds;y\n2020-01;1\n", r"a\.csv has one column.*put commas where it has ';'"),
        (" \n\n", r"a\.csv has only blank lines"),
        ("ds,y\n2020-01,1\n2020-02,2,5\n", r"a\.csv:3 has 3 columns, and the header has 2.*1\.5 and not 1,5"),
        ("ds,y\n2020-01,1\n2020-02,2e33\n", r"a\.csv:3 has '2e33' in the column 'y'; numbers up to 1e\+30"),
        ("name,y\na,1\nb,2\n", r"a\.csv has no column of times among name, y; name it as data\.columns\.time"),
        (
            "ds,text\n2020-01,a\n2020-02,b\n",
            r"a\.csv has no column of numbers beside 'ds' \('text' has 'a' in the first row\)",
        ),
        ("ds,y,y\n2020-01,1,1\n", r"more than one column 'y'"),
        ("ds,y\n2020-01,\n2020-02,\n", r"series 'y' has no numbers"),
        ("", r"a\.csv is empty"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_with_file_and_row(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(RegardError, match=sentence):
        read(written(tmp_path / "a.csv", text))


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"has no column 'value'; it has ds, y"):
        read(written(tmp_path / "a.csv", "ds,y\n2020-01,1\n"), Columns(value="value"))


def test_missing_steps_are_filled_as_told(tmp_path: Path) -> None:
    name = written(tmp_path / "a.csv", "ds,y\n1,\n2,1\n3,2\n4,\n5,NaN\n6,5\n7,na\n")
    filled = {how: read(name, fill=how)[0] for how in ("linear", "previous", "zero")}  # type: ignore[arg-type]
    assert filled["linear"].values.tolist() == [1, 2, 3, 4, 5]
    assert filled["previous"].values.tolist() == [1, 2, 2, 2, 5]
    assert filled["zero"].values.tolist() == [1, 2, 0, 0, 5]
    assert filled["zero"].texts(0, 1) == ["2"]


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is not a sound Parquet file"):
        read(written(tmp_path / "a.parquet", "ds,y\n"))


def test_a_table_is_read_until_a_time(tmp_path: Path) -> None:
    (series,) = read("series:airline?until=1958-12")
    assert series.texts(len(series) - 1, len(series)) == ["1958-12-01"]
    name = written(tmp_path / "a.csv", "ds,a,b\n1,1,\n2,2,\n3,3,3\n4,4,4\n")
    assert [(each.name, len(each)) for each in read(f"{name}?until=2")] == [("a", 2)]
    with pytest.raises(RegardError, match=r"a\.csv has no steps up to 0"):
        read(f"{name}?until=0")
    with pytest.raises(RegardError, match=r"until=soon = 'soon': the times of this table are whole numbers"):
        read(f"{name}?until=soon")


def test_until_counts_the_steps_at_or_before_a_position() -> None:
    series = Series("a", 10, numpy.arange(5.0), Frequency("step", 2))
    assert [series.until(position) for position in (9, 10, 11, 12, 18, 30)] == [0, 1, 1, 2, 5, 5]
