"""A request that is answered with an error. Each protocol gives it the shape that its clients read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Reason = Literal[
    "invalid",  # 400, 411, 413, 415 or 422: the request itself is wrong
    "no_key",  # 401: a key is needed
    "wrong_key",  # 403: the key is not known
    "forbidden",  # 403: a foreign host or origin
    "not_found",  # 404, 405: no such path or model
    "overloaded",  # 429: the queue is full, or a key asks too often
    "failed",  # 500: a mistake of this program
    "unavailable",  # 503: the worker died, the server ends, or the model cannot be read
    "timeout",  # 408, 504: sending or answering took too long
]


class ServeError(Exception):
    """An error with its HTTP status, the reason for programs, and a sentence for people; `field` is the field of the
    request that is wrong, where one is."""

    def __init__(
        self, status: int, reason: Reason, sentence: str, *, retry_after: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence
        self.retry_after, self.field = retry_after, field

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class UnreadableError(ServeError):
    """A model that cannot be read. Why names files of this machine, so that it is logged and not told to clients."""

    def __init__(self, why: str) -> None:
        super().__init__(503, "unavailable", "the model cannot be read; the log of the server says why")
        self.why = why


def refused(sentence: str, status: int = 400, *, field: str | None = None) -> ServeError:
    """The request itself is wrong."""
    return ServeError(status, "invalid", sentence, field=field)


def trouble(error: BaseException) -> str:
    """A mistake of this program without any text of a request: its kind, and where it happened."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
