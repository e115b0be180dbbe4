"""The unknown tokens of the input texts: a count, and some examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.data.tokenizers import Tokenizer
from regard.errors import shown

MOST = 5  # examples that are shown
MASKS = ("[MASK]", "<mask>")  # stand for what a model is to fill in


@dataclass
class Unknown:
    """How many tokens were read, how many of them are unknown, and the texts that these stand for."""

    tokenizer: Tokenizer
    tokens: int = 0
    unknown: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; the unknown ones among them are counted."""
        texts = [self._plain(text) for text in texts]
        rows = self.tokenizer.encode(list(texts))
        unk = self.tokenizer.special.unk
        for text, row in zip(texts, rows, strict=True):
            if not text.strip():  # its answer is empty
                continue
            self.tokens += len(row)
            if unk in row:
                self.unknown += row.count(unk)
                if len(self.examples) <= MOST:
                    spans = zip(self.tokenizer.offsets(text), row, strict=False)
                    self.examples |= dict.fromkeys(text[begin:end] for (begin, end), token in spans if token == unk)
        return rows

    def _plain(self, text: str) -> str:
        for name in MASKS:
            text = text.replace(name, " ")
        return text.replace("\t", " ")

    def __str__(self) -> str:
        names = [shown(name, most=40) for name in self.examples][:MOST]
        more = ", …" if len(self.examples) > MOST else ""
        return f"{self.unknown:,} of {self.tokens:,} tokens are unknown to the model: {', '.join(names)}{more}"
