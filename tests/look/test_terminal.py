import torch
from rich.cells import cell_len
from rich.console import Console

from regard.look.record import Map, Record, Side
from regard.look.terminal import heat_map, show

WEIGHTS = torch.tensor([[0.0, 0.25, 0.5], [0.75, 1.0, 0.1]])


def lines(weights, rows, columns):
    return heat_map(weights, rows, columns, colour=False).plain.splitlines()


def test_a_cell_is_as_dark_as_its_weight():
    top, first, second = lines(WEIGHTS, ["a", "bcd"], ["x", "y", "z"])
    assert top.split() == ["x", "y", "z"]
    assert (first.split()[0], second.split()[0]) == ("a", "bcd")
    assert [first[4:][at : at + 2] for at in (0, 2, 4)] == ["  ", "░░", "▒▒"]
    assert [second[4:][at : at + 2] for at in (0, 2, 4)] == ["▓▓", "██", "  "]


def test_columns_stand_under_their_names_and_all_lines_are_as_wide():
    found = lines(WEIGHTS, ["a", "bcd"], ["x", "longest", "z"])
    assert len({len(line) for line in found}) == 1
    assert found[1].index("░░") in range(found[0].index("longest"), found[0].index("longest") + 7)


def test_colour_gets_lighter_with_weight():
    text = heat_map(WEIGHTS, ["a", "b"], ["x", "y", "z"])
    colours = [span.style.bgcolor.triplet for span in text.spans if not isinstance(span.style, str)]
    light = [sum(triplet) for triplet in colours]
    assert len(light) == 6
    assert [place for _, place in sorted(zip(light, range(6), strict=True))] == [0, 5, 1, 2, 3, 4]
    assert set(text.plain) <= set("abxyz \n")


def test_weights_that_are_no_shares_are_drawn_as_all_or_nothing():
    (_, row) = lines(torch.tensor([[-0.5, 1.5]]), ["a"], ["x", "y"])
    assert row == "a   ██"


def test_names_that_would_break_the_picture_are_shown_by_a_picture():
    top, row = lines(torch.ones(1, 2), ["a\nb"], ["\t", "\u2028"])
    assert row.startswith("a␊b ")
    assert top.split() == ["␉", "�"]


def test_a_name_without_end_is_cut():
    top, row = lines(torch.ones(1, 1), ["x" * 10_000], ["y" * 10_000])
    assert len(top) == len(row) < 80
    assert row.startswith("x" * 20)
    assert "…" in row


def test_nothing_to_draw_is_drawn_as_nothing():
    assert lines(torch.zeros(0, 0), [], []) == [" "]
    assert lines(torch.zeros(2, 0), ["a", "b"], []) == ["  ", "a ", "b "]


def test_markup_in_a_name_is_text():
    console = Console(width=40, force_terminal=False)
    with console.capture() as shown:
        console.print(heat_map(torch.ones(1, 1), ["[bold]"], ["[/]"], colour=False))
    assert "[bold]" in shown.get()
    assert "[/]" in shown.get()


def test_wide_characters_count_as_two():
    found = lines(WEIGHTS, ["注意", "b"], ["x", "機械", "z"])
    assert {cell_len(line) for line in found} == {cell_len("注意") + 1 + 3 * (cell_len("機械") + 1)}


def test_notes_stand_above_the_map():
    each = Map("m", "self", "s", "s", torch.eye(2)[None], (0,))
    console = Console(width=80, color_system=None)
    with console.capture() as shown:
        show(Record("", {"s": Side(("a", "b"))}, (each,), notes=("The text was cut to [2] tokens.",)), console)
    found = shown.get()
    assert found.index("The text was cut to [2] tokens.") < found.index("██")
