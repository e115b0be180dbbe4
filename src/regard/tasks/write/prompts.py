"""What is read of the prompts that a model continues. Torch is not imported here."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.tokenizers import Tokenizer
from regard.decoding.config import DecodingConfig
from regard.errors import CutWarning, RegardError

LONGEST = 1 << 16  # tokens of a prompt that are read at most


@dataclass(frozen=True)
class Prompts:
    """Prompts as tokens. `reach` is how many tokens a model can look back on; None means all."""

    tokenizer: Tokenizer
    reach: int | None

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of prompts. Prompts that are too long lose their beginning, and a warning says so."""
        every = self.tokenizer.encode(list(texts))
        read = [self.end(prompt) for prompt in every]
        for whole, end in zip(every, read, strict=True):
            if len(end) < len(whole):
                warnings.warn(f"a prompt is too long: {told_of_cut(whole, end)}", CutWarning, stacklevel=2)
        return read

    def end(self, prompt: list[int]) -> list[int]:
        """What is read of a prompt: half of what the model can look back on, if it is longer than that."""
        if self.reach is None or self.reach > LONGEST:
            return prompt[-LONGEST:]
        return prompt if len(prompt) <= self.reach else self.later(prompt)

    def whole(self, tokens: list[int]) -> list[int]:
        """What is looked at of a given text: as much as the model can look back on, and the token that follows."""
        return tokens[-min(self.reach or LONGEST, LONGEST) - 1 :]

    def later(self, tokens: list[int]) -> list[int]:
        """The tokens that are read again where a text exceeds the reach."""
        return tokens if self.reach is None else tokens[-max(self.reach // 2, 1) :]

    def require_room(self, prompt: Sequence[int], decoding: DecodingConfig) -> None:
        """Refuse a beam that may say more than the model can look back on."""
        if self.reach is not None and len(prompt) + decoding.max_length > self.reach:
            raise RegardError(
                f"a beam of {decoding.beam} looks back on all it said, and {len(prompt)} tokens of the prompt with "
                f"max_length={decoding.max_length} are more than the {self.reach} the model can look back on; "
                "set decoding.sample=true, beam=1, or a lower max_length"
            )


def told_of_cut(whole: Sequence[int], end: Sequence[int]) -> str:
    """What people are told of tokens that are not read."""
    return f"only the last {len(end):,} of {len(whole):,} tokens are read"
