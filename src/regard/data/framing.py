"""Texts as an encoder reads them: BOS first, EOS after each, and which of them a token is of.

[CLS] a a a [SEP]              [CLS] a a a [SEP] b b b [SEP]
  0   0 0 0   0                  0   0 0 0   0   1 1 1   1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError
from regard.special import Special

IGNORED = -100  # what is not to be predicted


@dataclass(frozen=True)
class Framed:
    """One row: ids, the segment of each, and what is to be predicted."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    wanted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Framing:
    """How a model's texts are framed: up to `maximum` tokens; with one segment alone, a pair is parted by EOS twice."""

    special: Special
    maximum: int
    segments: int = 2

    def __post_init__(self) -> None:
        if self.maximum < self.room_taken(pair=True) + 2:
            raise RegardError(
                f"max_length={self.maximum} leaves no room for two texts beside what frames them; "
                f"try {self.room_taken(pair=True) + 2} or more"
            )

    def room_taken(self, *, pair: bool) -> int:
        """How many tokens are no text."""
        return 2 if not pair else 3 if self.segments == 2 else 4

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> Framed:
        """One text or two. What is too long loses its end, of two texts the longer one."""
        room = self.maximum - self.room_taken(pair=second is not None)
        first, second = shortened(first, second, room)
        bos, eos = self.special.bos, self.special.eos
        head = (bos, *first, eos)
        if second is None:
            return Framed(head, (0,) * len(head))
        tail = (*second, eos) if self.segments == 2 else (eos, *second, eos)
        return Framed((*head, *tail), (0,) * len(head) + (int(self.segments == 2),) * len(tail))


def shortened(
    first: Sequence[int], second: Sequence[int] | None, room: int
) -> tuple[Sequence[int], Sequence[int] | None]:
    """Both within `room` tokens, where the longer of the two gives first."""
    if second is None:
        return first[:room], None
    left, right = len(first), len(second)
    over = max(left + right - room, 0)
    gives = min(over, abs(left - right))  # first what one is longer by, then both alike
    both = over - gives
    from_left = (gives if left > right else 0) + (both + 1) // 2
    return first[: left - from_left], second[: right - (over - from_left)]
