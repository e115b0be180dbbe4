"""Recording attention weights.

Outside `recording` nothing is kept and `watching()` is false, so attention takes its fastest path. Inside, a module
with weights computes its output *from* them and delivers them; the record names them by the path of that module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from torch import Tensor, nn


class Recorder(Mapping[str, Tensor]):
    """Weights (B, H, Q, K) by module path: `record[path]` is the latest, `record.calls(path)` all in order of arrival.

    A sparse kernel delivers sparse tensors of the same logical shape; `record[path]` is always dense. With `head`, H is
    1 everywhere: the weights of that head, of modules that have it. With `sink`, weights are given to it with their
    path, and are not kept here.
    """

    def __init__(self, model: nn.Module, *, only: str = "*", head: int | None = None, sink: Sink | None = None) -> None:
        self._only, self._sink = only, sink
        self.head = head
        self._paths = {module: path for path, module in model.named_modules()}
        self._calls: dict[str, list[Tensor]] = {}
        self._vectors: dict[str, list[Vectors]] = {}
        self._columns: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._running: list[str] = []

    def __getitem__(self, path: str) -> Tensor:
        latest = self.calls(path)[-1]
        return latest.to_dense() if latest.is_sparse else latest

    def __contains__(self, path: object) -> bool:
        return path in self._calls

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def calls(self, path: str) -> list[Tensor]:
        """Everything the module at `path` delivered: one entry for each call, so one for each decoding step."""
        if path not in self._calls:
            raise KeyError(f"no weights were delivered by {path!r}; there are weights from {sorted(self._calls)}")
        return self._calls[path]

    def has_vectors(self, path: str) -> bool:
        """Whether the module at `path` compares by dot product, and delivered its queries and keys."""
        return path in self._vectors

    def vectors(self, path: str) -> list[Vectors]:
        """Queries (B, H, Q, D) and keys (B, H, K, D) that were compared by dot product: one entry for each call."""
        if path not in self._vectors:
            raise KeyError(
                f"no queries and keys were delivered by {path!r}; there are some from {sorted(self._vectors)}"
            )
        return self._vectors[path]

    def columns(self, path: str) -> str:
        """What the columns at `path` are, as told to `deliver`; "" for the positions that are looked at."""
        return self._columns.get(path, "")

    def place(self, path: str) -> str:
        """The same path without the number of a turn: that of the module, or of its part, which delivered it."""
        return self._places[path]

    def clear(self) -> None:
        """Discard what was delivered; recording continues."""
        self._calls.clear()
        self._vectors.clear()
        self._columns.clear()
        self._places.clear()

    @property
    def running(self) -> str:
        """Path of the module that is running now ("" for the model itself)."""
        return self._running[-1] if self._running else ""

    def wanted(self, part: str = "") -> bool:
        """Whether to record the weights of the running module, or of a `part` of it that is not a module."""
        return self._only == "*" or fnmatchcase(self._path(part), self._only)

    def take(self, weights: Tensor, *, part: str, vectors: Vectors | None, head: int | None, columns: str) -> None:
        """Keep the arguments of `deliver`, under the path of the running module."""
        if not self.wanted(part):
            return
        if self.head is not None and head is None:
            if self.head >= weights.shape[1]:
                return
            weights = weights.narrow_copy(1, self.head, 1)
        calls = self._calls.setdefault(self._path(part), [])
        self._places[self._path(part)] = self._place(part)
        if columns:
            self._columns[self._path(part)] = columns
        if self._sink is not None:
            self._sink(self._path(part), weights.detach())
            return
        calls.append(weights.detach())
        if vectors is not None:
            query, key = (x.detach() for x in vectors)
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
            chosen = slice(None) if self.head is None else slice(self.head, self.head + 1)
            self._vectors.setdefault(self._path(part), []).append((query[:, chosen], key[:, chosen]))

    def _path(self, part: str) -> str:
        path, turn = self._place(part), _turn.get()
        if turn is None or not path.startswith(turn.path):
            return path
        return _joined(turn.path, str(turn.number), path[len(turn.path) :].removeprefix("."))

    def _place(self, part: str) -> str:
        return _joined(self.running, part)

    def enter(self, module: nn.Module, *_: Any) -> None:
        """Forward pre-hook: `module` begins to run."""
        if _active.get() is self:
            self._running.append(self._paths[module])

    def leave(self, *_: Any) -> None:
        """Forward hook: the module that ran last is done."""
        if _active.get() is self:
            self._running.pop()


def _joined(*names: str) -> str:
    """The path of these names, of which some may be empty."""
    return ".".join(filter(None, names))


Vectors = tuple[Tensor, Tensor]
Sink = Callable[[str, Tensor], None]
_active: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


class _Turn(NamedTuple):
    path: str
    number: int


_turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)


@contextmanager
def recording(
    model: nn.Module, *, only: str = "*", head: int | None = None, sink: Sink | None = None
) -> Iterator[Recorder]:
    """Record every attention of `model` while the `with` lasts; with `only`, those whose path matches it ("*.cross").

    With `head`, only that head of each is recorded. Attention that is not recorded takes its fastest path. With `sink`,
    weights are given to it as they come, and are not kept: those of a long text are too many.

    Other threads using the same model are not recorded and are not slowed. Attention of this thread outside of every
    module of `model` is recorded as "".
    """
    recorder = Recorder(model, only=only, head=head, sink=sink)
    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(recorder.enter))
        hooks.append(module.register_forward_hook(recorder.leave, always_call=True))
    token = _active.set(recorder)
    try:
        yield recorder
    finally:
        _active.reset(token)
        for hook in hooks:
            hook.remove()


@contextmanager
def turn(number: int) -> Iterator[None]:
    """For a module that applies the same block again and again, around each time: what is recorded meanwhile has the
    number in its path, right after the path of that module."""
    recorder = _active.get()
    token = _turn.set(None if recorder is None else _Turn(recorder.running, number))
    try:
        yield
    finally:
        _turn.reset(token)


def watching(part: str = "") -> bool:
    """Whether the weights of the running module, or of a `part` of it that is not a module, are being recorded."""
    recorder = _active.get()
    return recorder is not None and recorder.wanted(part)


def recorded() -> bool:
    """Whether any weights are being recorded."""
    return _active.get() is not None


def watched_head() -> int | None:
    """The number of the only head that is recorded; None for all heads."""
    recorder = _active.get()
    return None if recorder is None else recorder.head


def deliver(
    weights: Tensor, *, part: str = "", vectors: Vectors | None = None, head: int | None = None, columns: str = ""
) -> None:
    """Give the recorder weights (B, H, Q, K), dense or sparse, and the queries and keys that they were computed from.

    With `head`, the weights are of that head alone, (B, 1, Q, K); the queries and keys are of all. `columns` says what
    the columns are if they are not the positions that are looked at: "expert" names them "expert 1", "expert 2" and so
    on.
    """
    recorder = _active.get()
    if recorder is not None:
        recorder.take(weights, part=part, vectors=vectors, head=head, columns=columns)
