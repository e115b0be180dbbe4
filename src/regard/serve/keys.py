"""Keys that clients must give, where there are any: compared in constant time, never logged."""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.whole import read_text
from regard.errors import RegardError
from regard.serve.failures import ServeError

VARIABLE = "REGARD_KEYS"  # keys in the environment, with commas between them
MINUTE = 60.0


@dataclass
class Keys:
    """The keys that are known, and how many requests a minute each may make; without keys everybody may ask."""

    known: tuple[str, ...] = ()
    rate: int | None = None
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)  # requests left of each key, and since when

    def __repr__(self) -> str:
        return f"{len(self.known)} keys"

    @classmethod
    def read(cls, file: Path | None, *, rate: int | None = None) -> Keys:
        """The keys of a file, one on each line, and of the environment."""
        lines: Iterable[str] = []
        if file is not None:
            try:
                lines = read_text(file).splitlines()
            except OSError as error:
                raise RegardError(f"{file} cannot be read ({error.strerror}); name a file of keys") from None
        named = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        named += [key.strip() for key in os.environ.get(VARIABLE, "").split(",") if key.strip()]
        if file is not None and not named:
            raise RegardError(f"{file} holds no key; write one on each line")
        return cls(tuple(dict.fromkeys(named)), rate)

    def admit(self, given: str | None) -> None:
        """Refuse a request without a known key, or one of a key that asks too often."""
        if not self.known:
            return
        if not given:
            raise ServeError(401, "no_key", "an API key is needed; send it as: Authorization: Bearer KEY")
        found = None
        for key in self.known:  # all of them, so that the time says nothing
            if hmac.compare_digest(key.encode(), given.encode("utf-8", "surrogatepass")):
                found = key
        if found is None:
            raise ServeError(403, "wrong_key", "the API key is not known")
        self._count(found)

    def _count(self, key: str) -> None:
        """Take one request from those that a key may make; they come back over a minute."""
        if self.rate is None:
            return
        now = time.monotonic()
        left, since = self._left.get(key, (float(self.rate), now))
        left = min(float(self.rate), left + (now - since) * self.rate / MINUTE)
        if left < 1:
            seconds = max(1, round((1 - left) * MINUTE / self.rate))
            sentence = f"this key may ask {self.rate} times a minute; try again in {seconds} s"
            raise ServeError(429, "overloaded", sentence, retry_after=seconds)
        self._left[key] = (left - 1, now)
