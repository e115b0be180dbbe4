"""How texts are framed, and what gives when they are too long."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.rows.framing import Framing
from regard.special import Special

SPECIAL = Special(pad=0, unk=1, bos=2, eos=3)


def test_a_text_and_a_pair_are_framed():
    framing = Framing(SPECIAL, 20)
    assert framing.frame([7, 8]).ids == (2, 7, 8, 3)
    pair = framing.frame([7, 8], [9])
    assert pair.ids == (2, 7, 8, 3, 9, 3)
    assert pair.segments == (0, 0, 0, 0, 1, 1)


def test_with_one_segment_a_pair_is_parted_twice():
    pair = Framing(SPECIAL, 20, segments=1).frame([7, 8], [9])
    assert pair.ids == (2, 7, 8, 3, 3, 9, 3)
    assert set(pair.segments) == {0}


@settings(max_examples=30)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(6, 40), st.sampled_from([1, 2]))
def test_the_longer_text_gives_first(first: int, second: int, maximum: int, segments: int):
    framing = Framing(SPECIAL, maximum, segments=segments)
    row = framing.frame([7] * first, [8] * second)
    assert len(row.ids) == min(maximum, first + second + framing.room_taken(pair=True))
    left, right = row.ids.count(7), row.ids.count(8)
    if left < first and right < second:
        assert abs(left - right) <= 1
    elif left < first:
        assert left >= right - 1  # of two equally long, one gives one more
    elif right < second:
        assert right >= left - 1
