"""Texts as an encoder reads them: BOS first, EOS after each text, and for each token the segment (text) it belongs to.

[CLS] a a a [SEP]              [CLS] a a a [SEP] b b b [SEP]
  0   0 0 0   0                  0   0 0 0   0   1 1 1   1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError
from regard.special import Special

IGNORED = -100  # the target of a token for which nothing is to be predicted


@dataclass(frozen=True)
class Row:
    """Token ids, the segment of each token, the targets to predict, and how many tokens of the texts were cut off."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    wanted: tuple[int, ...] = ()
    unread: int = 0


@dataclass(frozen=True)
class Framing:
    """How texts become a row of up to `maximum` tokens. A model with one segment reads two EOS between two texts."""

    special: Special
    maximum: int
    segments: int = 2

    def __post_init__(self) -> None:
        if self.maximum < self.room_taken(pair=True) + 2:
            raise RegardError(
                f"max_length={self.maximum} leaves no room for two texts beside BOS and EOS; "
                f"try {self.room_taken(pair=True) + 2} or more"
            )

    def room_taken(self, *, pair: bool) -> int:
        """How many tokens of a row are BOS or EOS."""
        return 2 if not pair else 3 if self.segments == 2 else 4

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> Row:
        """The row of one text or two. A row that is too long loses its end; of two texts, the longer loses its."""
        room = self.maximum - self.room_taken(pair=second is not None)
        unread = max(len(first) + len(second or ()) - room, 0)
        first, second = shortened(first, second, room)
        bos, eos = self.special.bos, self.special.eos
        head = (bos, *first, eos)
        if second is None:
            return Row(head, (0,) * len(head), unread=unread)
        tail = (*second, eos) if self.segments == 2 else (eos, *second, eos)
        return Row((*head, *tail), (0,) * len(head) + (int(self.segments == 2),) * len(tail), unread=unread)


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
