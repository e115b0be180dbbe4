"""A text while it is written: tokens are decoded as they come, and the text ends where a stop string begins. Torch is
not imported here."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers import Tokenizer

BEFORE = 8  # tokens of a prompt that decide how its continuation is joined to it
BROKEN = "\ufffd"  # what bytes that are not yet a character are decoded to


class Growing:
    """One text that grows token by token.

    `text` is what was written after the prompt. New text is the difference between two decodings, without and with the
    new tokens, because the text of a token depends on the token before it.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], *, stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, [each for each in stop if each]
        self.text = ""
        self.stopped = self.finished = False
        self._tokens = list(prompt[-BEFORE:])
        self._begin, self._read = 0, len(self._tokens)

    @classmethod
    def of(cls, tokenizer: Tokenizer, prompt: Sequence[int], tokens: Sequence[int], stop: Sequence[str]) -> Growing:
        """A whole continuation, given its tokens and its prompt; token by token where it may have to stop."""
        growing = cls(tokenizer, prompt, stop=stop)
        if growing.stop:
            for token in tokens:
                growing.add(token)
        else:
            growing._tokens += tokens
        growing.finish()
        return growing

    def add(self, token: int) -> None:
        """Add one token. Bytes that are not yet a character wait for the next token."""
        self._tokens.append(token)
        self._take(BROKEN)

    def finish(self) -> None:
        """Add the bytes that are still waiting."""
        self._take(None)
        self.finished = True

    @property
    def sure(self) -> int:
        """How many characters of the text are certain to stay: those that cannot be the beginning of a stop string."""
        if self.stopped or self.finished:
            return len(self.text)
        begun = (length for stop in self.stop for length in range(1, len(stop)) if self.text.endswith(stop[:length]))
        return len(self.text) - max(begun, default=0)

    def _take(self, unfinished: str | None) -> None:
        if self.stopped:
            return
        before, now = self.tokenizer.decode([self._tokens[self._begin : self._read], self._tokens[self._begin :]])
        new = now[len(before) :]
        if not new or (unfinished and new.endswith(unfinished)):
            return
        self._begin, self._read = self._read, len(self._tokens)
        longest = max(map(len, self.stop), default=0)
        begin = max(len(self.text) - longest, 0)
        self.text += new
        ends = [at for stop in self.stop if (at := self.text.find(stop, begin)) >= 0]
        if ends:
            self.text, self.stopped = self.text[: min(ends)], True
