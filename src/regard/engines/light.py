"""What an engine without torch is, for those who choose one and ask it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from regard.tasks.base import AnswerT, AskedT, RunOptions

if TYPE_CHECKING:
    from regard.engines.ctranslate2.apart import Apart

AskedIn = TypeVar("AskedIn", contravariant=True)


class LightEngine(ABC, Generic[AskedT, AnswerT]):
    """A model directory that is answered without torch."""

    name: ClassVar[str]
    why: str  # why this engine answers
    learned: int | None = None  # how many positions the model has, if they are limited
    apart: Apart | None = None  # the process that computes; this one if None

    @abstractmethod
    def reason(self, options: RunOptions) -> str | None:
        """Why torch has to answer with these options, as a sentence; None if this engine gives the same answers."""

    @abstractmethod
    def open(self, options: RunOptions) -> None:
        """Read the model now, so that a damaged one is refused now."""

    @abstractmethod
    def answer_all(self, asked: Iterable[AskedT], options: RunOptions, *, together: int) -> Iterator[AnswerT]:
        """The answers in order; `together` inputs may be answered in one batch."""


@runtime_checkable
class Tells(Protocol[AskedIn]):
    """An engine that can tell an answer while it comes."""

    def pieces(self, asked: AskedIn, options: RunOptions) -> Iterator[str]: ...


AnyLightEngine = LightEngine[Any, Any]
