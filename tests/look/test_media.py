"""Pictures, graphs and series in print and in the terminal: panels, places, steps, and what is drawn of them."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from itertools import pairwise

import made_media
import made_records
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.figure import Figure
from rich.console import Console

from regard.look.neighbours import Neighbours
from regard.look.panels import Panel, panels, pixels, windows
from regard.look.pictures import draw, series
from regard.look.pictures.sheet import STYLE
from regard.look.record import Map, Record
from regard.look.show import main_map
from regard.look.terminal import show
from regard.look.timeline import Timeline
from regard.tasks.base import Side


def made(record: made_records.Record) -> Record:
    return Record.from_json(record | {"saliency": {}})


def printed(record: Record, *, colour: bool = False, width: int = 100) -> str:
    console = Console(
        width=width, color_system="truecolor" if colour else None, force_terminal=colour, file=io.StringIO()
    )
    with console.capture() as shown:
        show(record, console)
    return shown.get()


def text_of(record: Record) -> str:
    return " ".join(re.findall(r">([^<>]+)</text>", draw(record, ".svg").decode()))


def drawn(record: Record) -> Figure:
    """The figure of a series before it is a file."""
    made = series.sheet(record, main_map(record))
    with rc_context(STYLE):
        figure = Figure(figsize=made.size, layout="constrained")
        made.paint(figure, lambda text: text)
        figure.draw_without_rendering()
    return figure


# pictures


def test_each_layer_of_the_class_token_has_a_panel_and_the_last_is_the_rollout():
    record = made(made_media.seen())
    found, about = panels(record)
    assert [panel.name for panel in found] == ["layer 0", "layer 1", "layer 2", "rollout"]
    assert "[CLS]" in about
    size = (made_media.ROWS, made_media.COLUMNS)
    for panel, each in zip(found, record.maps, strict=False):
        assert torch.equal(panel.weights, each.weights.mean(0)[0, 1:].view(size))
    reached = torch.eye(49)
    for each in record.maps:
        reached = (0.5 * each.weights.mean(0) + 0.5 * torch.eye(49)) @ reached
    torch.testing.assert_close(found[-1].weights, reached[0, 1:].view(size))


def test_each_word_has_a_panel_and_many_words_are_thinned():
    record = made(made_media.captioned())
    found, _ = panels(record)
    assert [panel.name for panel in found] == made_media.WORDS
    weights = torch.rand(1, 30, 48)
    words = Side(tuple(f"word {number}" for number in range(30)))
    many = replace(
        record,
        sides={**record.sides, "target": words},
        maps=(replace(record.maps[0], weights=weights),),
    )
    found, about = panels(many)
    assert len(found) == 11
    assert (found[0].name, found[-1].name) == ("word 0", "word 29")
    assert "11 of 30" in about


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=30)
def test_borders_are_where_windows_meet(down: int, across: int, size: int, seed: int):
    rows, columns = down * size, across * size
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    window = (row // size * 100 + column // size).flatten()
    scores = torch.rand(rows * columns, rows * columns, generator=torch.Generator().manual_seed(seed))
    found = windows(scores.masked_fill(window[:, None] != window, -math.inf).softmax(-1), rows, columns)
    if down * across == 1:
        assert found is None
        return
    assert found is not None
    right, below = found
    assert torch.equal(right, (torch.arange(1, columns) % size == 0).expand(rows, -1))
    assert torch.equal(below, (torch.arange(1, rows) % size == 0)[:, None].expand(-1, columns))


def test_neighbourhoods_that_overlap_have_no_borders():
    near = (torch.arange(6)[:, None] - torch.arange(6)).abs() <= 1  # 1 × 6 patches that see their neighbours
    assert windows(near / near.sum(-1, keepdim=True), 1, 6) is None


def test_the_largest_weight_is_not_covered_and_arrows_lead_to_the_strongest():
    panel = Panel("", torch.tensor([[0.4, 0.1], [0.2, 0.3]]), start=(0.0, 0.0, 0.5, 0.5))
    assert panel.cover() == pytest.approx(0.88 * (1 - np.array([[1, 0.25], [0.5, 0.75]])))
    assert [place for place, _ in panel.strongest()] == [(1, 1), (1, 0), (0, 1)]
    assert panel.focus() == pytest.approx((1.0, 0.9))


def test_a_coarser_grid_has_the_picture_of_another_side_and_a_broken_picture_is_none():
    record = made(made_media.windowed())
    own = pixels(record, record.sides["source"])
    assert own is not None
    assert own.shape == (192, 256, 3)
    assert np.array_equal(own, pixels(record, record.sides["stage 1"]))
    for broken in ("data:image/png;base64,AAAA", "data:image/png;base64,%", "http://elsewhere/x.png"):
        side = replace(record.sides["source"], picture=broken)
        assert pixels(replace(record, sides={"source": side}), side) is None


@pytest.mark.parametrize("name", ["seen", "windowed", "captioned", "glimpsed"])
def test_a_picture_is_drawn_with_its_panels(name: str):
    record = made(getattr(made_media, name)())
    found = text_of(record)
    for panel in panels(record)[0]:
        assert panel.name in found.replace("&lt;", "<").replace("&gt;", ">")


def test_a_picture_in_the_terminal_has_the_colours_of_its_pixels_where_it_is_lit():
    record = made(made_media.glimpsed())
    found = printed(record, colour=True)
    assert "38;2;250;210;60" in found  # the sun
    assert "38;2;70;77;91" not in found.partition("glimpse 1")[0]
    plain = printed(record)
    assert "\x1b" not in plain
    lit = [line for line in plain.splitlines() if "██████████" in line[28:]]  # beside the picture itself
    assert 5 <= len(lit) <= 15  # three of six rows of patches, on two rows of panels
    assert max(map(len, plain.splitlines())) <= 100


# graphs


def test_places_of_nodes_are_apart_and_in_the_square():
    record = made(made_media.citations())
    places = Neighbours.of(record, main_map(record)).places()
    assert places.shape == (40, 2)
    assert places.min() == 0
    assert places.max() == pytest.approx(1)
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    edges = np.array(record.sides["source"].edges)
    assert distance[edges[:, 0], edges[:, 1]].mean() < 0.7 * distance.mean()  # neighbours are near each other
    assert distance[~np.eye(40, dtype=bool)].min() > 0.005


def test_a_graph_without_edges_or_classes_is_drawn():
    weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]])
    each = Map("m", "self", "g", "g", weights, (0,))
    record = Record("", {"g": Side(("a", "b"), "nodes")}, (each,))
    assert Neighbours.of(record, each).edges == ((1, 0),)
    assert "the strongest edges" in printed(record)
    assert draw(record, ".svg")
    alone = Record("", {"g": Side(("a",), "nodes", edges=())}, (replace(each, weights=torch.ones(1, 1, 1)),))
    assert draw(alone, ".svg")
    assert printed(alone)


def test_a_node_that_looks_at_nothing_is_told():
    record = made(made_media.citations())
    weights = main_map(record).weights.clone()
    weights[:, 0] = 0
    record = replace(record, maps=(replace(main_map(record), weights=weights),))
    assert "paper 0 (theory) looks at\n  nothing\n" in printed(record)
    assert "paper 0 looks at nothing." in text_of(record)


def test_a_node_without_a_class_has_no_entry_in_the_legend():
    weights = torch.tensor([[[0.2, 0.8], [0.0, 1.0]]])
    side = Side(("a", "b"), "nodes", edges=((0, 1),), labels=("first", ""))
    record = Record("", {"g": side}, (Map("m", "self", "g", "g", weights, (0,)),))
    assert Neighbours.of(record, record.maps[0]).classes == ["first"]
    assert draw(record, ".svg")
    found = printed(record)
    assert "a (first)" in found
    assert "()" not in found


def test_a_graph_names_nodes_classes_and_weights():
    record = made(made_media.citations())
    found = text_of(record)
    strongest, weight = Neighbours.of(record, main_map(record)).looked_at(0)[0]
    for text in ("paper 0", *made_media.CLASSES, f"{weight:.2f}"):
        assert text in found
    lines = printed(record).splitlines()
    first = lines.index("paper 0 (theory) looks at")
    label = made_media.CLASSES[strongest % 4]
    assert lines[first + 1].split() == [f"{weight:.3f}", "━" * 24, "paper", str(strongest), f"({label})"]


# series


def test_steps_of_the_same_name_are_the_same_step():
    past = Side(("a", "b", "c"), "steps", values=(1.0, 2.0, 3.0))
    future = Side(("c", "d"), "steps", values=(3.0, 4.0))
    timeline = Timeline.of({"target": future, "source": past, "words": Side(("x",))})
    assert timeline.steps == ("a", "b", "c", "d")
    assert dict(timeline.places) == {"source": (0, 1, 2), "target": (2, 3)}
    twice = Timeline.of({"source": Side(("a", "a"), "steps", values=(1.0, 2.0))})
    assert twice.places["source"] == (0, 1)


def test_a_series_is_the_main_map_and_other_steps_are_not():
    record = made(made_media.passengers())
    assert main_map(record).name == "decoder.attention"
    numbered = Map("experts", "cross", "source", "experts", torch.ones(1, 144, 4), (0,))
    sides = {**record.sides, "experts": Side(tuple("abcd"), "steps")}
    assert main_map(replace(record, sides=sides, maps=(record.maps[1], numbered))).name == "encoder.gates"


def test_a_series_is_drawn_with_its_intervals():
    record = made(made_media.passengers())
    found = text_of(record)
    for text in ("past", "forecast", "80% interval", "50% interval", "1949-01", "1961-01", "weight"):
        assert text in found
    gates = replace(record, maps=record.maps[1:])
    assert "weights of 1960-12" in text_of(gates)


def test_a_forecast_begins_at_the_last_number_of_the_past():
    past = Side(("a", "b", "c", "d"), "steps", values=(1.0, 2.0, math.nan, math.nan))
    future = Side(("c", "d", "e"), "steps", values=(3.0, 4.0, 5.0), bands=((0.8, (2.0, 3.0, 4.0), (4.0, 5.0, 6.0)),))
    timeline = Timeline.of({"source": past, "target": future})
    assert timeline.joint("target") == (1, 2.0)
    assert timeline.joint("source") is None
    assert Timeline.of({"target": future}).joint("target") is None
    weights = torch.tensor([[[0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0.25] * 4]])
    record = Record("", {"source": past, "target": future}, (Map("m", "cross", "target", "source", weights, (0,)),))
    _, forecast = drawn(record).axes[0].get_lines()
    assert forecast.get_xydata().tolist() == [[1, 2], [2, 3], [3, 4], [4, 5]]


@pytest.mark.parametrize("count", [20, 36, 60, 96, 300])
@pytest.mark.parametrize("name", ["{:04}", "1960-01-{:02}", "1960-01-01 {:02}:00:00"])
def test_names_on_the_axis_of_time_do_not_overlap(count: int, name: str):
    names, ahead = [name.format(at) for at in range(count)], count // 3
    past = Side(tuple(names[:-ahead]), "steps", values=(1.0,) * (count - ahead))
    future = Side(tuple(names[-ahead:]), "steps", values=(2.0,) * ahead)
    weights = torch.ones(1, ahead, count - ahead)
    record = Record("", {"source": past, "target": future}, (Map("m", "cross", "target", "source", weights, (0,)),))
    boxes = [label.get_window_extent() for label in drawn(record).axes[1].get_xticklabels()]
    assert len(boxes) > 1
    assert all(one.x1 + 5 < other.x0 for one, other in pairwise(boxes))


def test_a_series_in_the_terminal_rises_with_its_values():
    past = Side(tuple("abcd"), "steps", values=(0.0, 1.0, math.nan, 2.0))
    future = Side(("e",), "steps", values=(4.0,), bands=((0.5, (3.5,), (4.5,)), (0.8, (3.0,), (5.0,))))
    weights = torch.tensor([[[0.0, 0.25, 0.0, 0.75]]])
    record = Record("", {"source": past, "target": future}, (Map("m", "cross", "target", "source", weights, (0,)),))
    lines = printed(record).splitlines()[2:14]
    heights = [sum(line[10 + at : 11 + at] not in ("", " ", "░") for line in lines[:10]) for at in range(5)]
    assert heights[0] < heights[1] < heights[3] < heights[4]
    assert heights[2] == 0
    assert lines[0][14] == "░"  # the wider interval reaches the top
    assert lines[10][10:14].ljust(4)[1] < lines[10][13]  # the bars of the weights
    assert lines[10][10] == lines[10][12] == " "


def test_a_pooled_set_is_a_list_of_its_items():
    lines = printed(made(made_media.pooled())).splitlines()
    assert lines[2] == "seed 1 looks at"
    assert [line.split()[-1] for line in lines[3:6]] == ["97", "97", "91"]
