"""Texts as an encoder reads them: BOS first, EOS after each text, and for each token the segment (text) it belongs to.

[CLS] a a a [SEP]              [CLS] a a a [SEP] b b b [SEP]
  0   0 0 0   0                  0   0 0 0   0   1 1 1   1

Where BOS is last, it is a segment of its own:

a a a <sep> <cls>              a a a <sep> b b b <sep> <cls>
0 0 0   0     2                0 0 0   0   1 1 1   1     2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.errors import RegardError
from regard.special import BOS_SEGMENT, Special

IGNORED = -100  # the target of a token for which nothing is to be predicted


@dataclass(frozen=True)
class Row:
    """Token ids, the segment of each token, the targets to predict, and how many tokens of the texts were cut off.

    For a model that predicts tokens in an order, `order` is the rank of each token in it.
    """

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    wanted: tuple[int, ...] = ()
    unread: int = 0
    order: tuple[int, ...] = ()

    @property
    def targets(self) -> list[int]:
        """The places of the tokens that have a target."""
        return [place for place, wanted in enumerate(self.wanted) if wanted != IGNORED]


@dataclass(frozen=True)
class Framing:
    """How texts become a row of up to `maximum` tokens. A model with one segment reads two EOS between two texts; with
    `bos_last`, BOS comes after all texts."""

    special: Special
    maximum: int
    segments: int = 2
    bos_last: bool = False

    def __post_init__(self) -> None:
        if self.maximum < self.room_taken(pair=True) + 2:
            raise RegardError(
                f"max_length={self.maximum} leaves no room for two texts beside BOS and EOS; "
                f"try {self.room_taken(pair=True) + 2} or more"
            )

    def at_most(self, length: int | None) -> Framing:
        """The same for rows that are no longer than `length`, if one is given."""
        return self if length is None else replace(self, maximum=min(self.maximum, length))

    def room_taken(self, *, pair: bool) -> int:
        """How many tokens of a row are BOS or EOS."""
        return 2 if not pair else 3 if self.segments == 2 else 4

    @property
    def first_place(self) -> int:
        """Where the first text of a row begins."""
        return 0 if self.bos_last else 1

    def place_of_bos(self, row: Row) -> int:
        """Where BOS stands in a row."""
        return len(row.ids) - 1 if self.bos_last else 0

    def ask(self, question: Sequence[int], passage: Sequence[int]) -> tuple[Row, int]:
        """The row of a question and a passage, and where the passage begins: last in the row, but first in a row that
        ends with BOS, as such models are trained elsewhere."""
        if self.bos_last:
            return self.frame(passage, question), 0
        return self.frame(question, passage), len(question) + self.room_taken(pair=True) - 1

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> Row:
        """The row of one text or two. A row that is too long loses its end; of two texts, the longer loses its."""
        room = self.maximum - self.room_taken(pair=second is not None)
        unread = max(len(first) + len(second or ()) - room, 0)
        first, second = shortened(first, second, room)
        bos, eos = self.special.bos, self.special.eos
        head = (*first, eos) if self.bos_last else (bos, *first, eos)
        tail = () if second is None else (*second, eos) if self.segments == 2 else (eos, *second, eos)
        ids, segments = (*head, *tail), (0,) * len(head) + (int(self.segments == 2),) * len(tail)
        if self.bos_last:
            ids, segments = (*ids, bos), (*segments, BOS_SEGMENT)
        return Row(ids, segments, unread=unread)


def shortened(
    first: Sequence[int], second: Sequence[int] | None, room: int
) -> tuple[Sequence[int], Sequence[int] | None]:
    """Both texts cut to `room` tokens together; the longer one is cut first."""
    if second is None:
        return first[:room], None
    left, right = len(first), len(second)
    over = max(left + right - room, 0)
    gives = min(over, abs(left - right))  # first the longer text is cut to the length of the other, then both equally
    both = over - gives
    from_left = (gives if left > right else 0) + (both + 1) // 2
    return first[: left - from_left], second[: right - (over - from_left)]
