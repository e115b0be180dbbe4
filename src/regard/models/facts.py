"""The facts that a kind states, so that no other room needs to ask which kind it is. Torch is not imported here.

A config states the facts that are known without weights. Methods of a module beyond `forward` are protocols in
`tasks/modules.py`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, PositiveInt

from regard.checking import Settings
from regard.special import OWN, Special

Pooling = Literal["pooler", "first", "last", "mean"]
"""How one vector is made of a text: tanh(W h) of BOS, the first, the last, or the mean of the tokens' vectors."""

LearnsWords = Literal["", "masked", "two_way", "permuted"]
"""How a kind learns to fill gaps: not at all, or as one of the ways in `tasks/fill`."""

Use = Literal["whole", "words", "vector", "text", "tokens", "span"]
"""The part of a model that a task uses: all of it, the words that it predicts, one vector for a text, a head
on the text, a head on each token, or a head that points at a span."""

BLOCK = 64  # tokens in one piece of a text


class ModelConfig(Settings):
    """The [model] of every kind."""

    kind: str
    width: PositiveInt

    carries: ClassVar[bool] = False  # whether state is carried from one block of a text to the next
    continues: ClassVar[bool] = False  # whether it learns from batches whose rows continue those of the batch before
    adjustable: ClassVar[frozenset[str]] = frozenset()  # keys that may be changed after training

    def ids(self) -> Special:
        """The special ids of its vocabulary."""
        return OWN

    def reads(self) -> int | None:
        """The longest input in tokens; None if every length can be read."""
        return None

    def block(self) -> int:
        """How many tokens are learned in one piece, unless data.block is given."""
        return BLOCK

    def starts_from(self) -> str | None:
        """The pretrained body that its first weights come from, if any."""
        return None

    def says_words(self) -> bool:
        """Whether it has an output layer that fills in words."""
        return False

    def vocabularies(self) -> tuple[int | None, int | None]:
        """The sizes of the source and target vocabularies, where the config states them; None means the tokenizer's. A
        target without a vocabulary of its own shares the source's."""
        return None, None


class BodyConfig(ModelConfig):
    """A kind that reads a text token by token, so that a head can stand on it."""

    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    special: Special = OWN
    vocabulary: PositiveInt | None = None  # as large as the tokenizer's unless given
    pooling: Pooling | None = None  # how one vector is made of a text; the task's way if None
    body: str | None = None  # where the first weights come from; they are random if None

    learns_words: ClassVar[LearnsWords] = ""
    ends_with_bos: ClassVar[bool] = False  # whether BOS stands after all texts of a row, and not before them
    frozen_under_a_head: ClassVar[bool] = False  # whether only the head learns, unless training.freeze is given

    def ids(self) -> Special:
        return self.special

    def vocabularies(self) -> tuple[int | None, int | None]:
        return self.vocabulary, None

    def segments_told_apart(self) -> int:
        """How many segments of a text have a vector of their own: 0, 1 or 2."""
        return 0

    def pools(self) -> Pooling:
        """How one vector is made of a text for a head that stands on it."""
        return self.pooling or "mean"

    def starts_from(self) -> str | None:
        return self.body

    def remembers(self) -> int:
        """How many tokens before a piece of a text are read with it as its memory."""
        return 0

    def says_what_follows(self) -> bool:
        """Whether it has a head that tells if a second text follows the first."""
        return False

    def suited(self, use: Use) -> Self:
        """The same config with the heads that the use needs, and no others."""
        return self


class PictureConfig(ModelConfig):
    """A kind that turns pictures into numbers.

    Its module is built as `Kind(config, channels=…, rows=…, columns=…, outputs=…)`: the data decides the sizes of a
    picture in pixels, and the task decides how many numbers there are.
    """

    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)


class Grid(NamedTuple):
    """The places of a picture that an attention looks from or at, row by row, after the tokens that have no place."""

    rows: int
    columns: int
    extra: tuple[str, ...] = ()  # the names of tokens before the places, such as a class token

    def halved(self) -> Grid:
        """The grid of half as many rows and columns."""
        return Grid(-(-self.rows // 2), -(-self.columns // 2))

    def name(self, source: Grid) -> str:
        """The name of these places as a side, beside the places `source` that a picture is first cut into."""
        return "source" if self == source else f"{self.rows} × {self.columns} places"
