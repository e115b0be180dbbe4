"""Inputs that wait for a worker, and which of them it answers together.

Inputs of one model with equal options may be answered together, whoever sent them. A batch holds the input that has
waited longest and those of the most similar length, as many as the budget of tokens allows: more would not be answered
faster. An input waits for others no longer than a share of the time that one answer takes. Both were measured when the
model was opened. An idle worker takes at once what has waited so long.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from pydantic import JsonValue

from regard.engines.channel import Message
from regard.serve.registry import Entry

TOKENS = 1024  # budget of a batch until one was measured
PATIENCE = 0.25  # of the seconds for one answer, that an input waits for others
LONGEST_WAIT = 0.005  # seconds
CHARACTERS = 4.0  # of a token, until texts of the model were read


@dataclass
class Budget:
    """How a model is best asked: tokens together, and seconds that an input may wait for others."""

    tokens: int = TOKENS
    wait: float = 0.0
    characters: float = CHARACTERS  # of a token

    def measured(self, tokens: int | None, single: float | None) -> None:
        self.tokens = tokens or TOKENS
        self.wait = min(PATIENCE * (single or 0.0), LONGEST_WAIT)

    def learn(self, characters: int, tokens: int) -> None:
        """How long tokens are, from texts that were read."""
        if tokens and characters:
            self.characters += 0.1 * (characters / tokens - self.characters)


@dataclass(frozen=True)
class Job:
    """What is asked of a model about each input: a verb of the worker, the options of `regard run`, whether the answer
    tells what `regard run --json` does, and whether an input that is too long may be cut."""

    entry: Entry
    verb: str
    options: dict[str, JsonValue] = field(default_factory=dict)
    detailed: bool = False
    cut: bool = False

    @property
    def key(self) -> str:
        """Equal for inputs that may be answered together."""
        return f"{self.entry.name} {self.verb} {self.detailed} {self.cut} {json.dumps(self.options, sort_keys=True)}"

    @property
    def message(self) -> Message:
        """The job without its inputs, for a worker."""
        return {"verb": self.verb, "options": self.options, "detailed": self.detailed, "cut": self.cut}


@dataclass(eq=False)
class Item:
    """One input, and who receives what comes of it."""

    given: object
    size: int  # characters
    reply: Callable[[Message | None], None]
    born: float = field(default_factory=time.monotonic)
    left: bool = False  # whether the client has left


@dataclass(eq=False)
class Group:
    """Inputs that may be answered together."""

    entry: Entry
    message: Message  # the job without its inputs
    budget: Budget
    alone: bool = False  # whether each is a job of its own
    items: list[Item] = field(default_factory=list)
    characters: int = 0  # of all items

    def __post_init__(self) -> None:
        self.characters = sum(item.size for item in self.items)

    @property
    def tokens(self) -> float:
        return self.characters / self.budget.characters + len(self.items)

    def add(self, items: Sequence[Item], *, first: bool = False) -> None:
        """Let inputs wait, after all others or before them."""
        self.items = [*items, *self.items] if first else [*self.items, *items]
        self.characters += sum(item.size for item in items)

    def drop(self, gone: Set[Item]) -> None:
        """Let inputs wait no longer."""
        self.items = [item for item in self.items if item not in gone]
        self.characters = sum(item.size for item in self.items)

    def tokens_of(self, item: Item) -> float:
        return item.size / self.budget.characters + 1

    @property
    def whole(self) -> bool:
        """Whether there is a whole batch."""
        return len(self.items) > 1 and self.tokens >= self.budget.tokens

    def due(self) -> float:
        """When the first input has waited long enough: at once if there is a whole batch."""
        return self.items[0].born + (0.0 if self.alone or self.whole else self.budget.wait)

    def take(self, share: int) -> list[Item]:
        """The inputs of the next batch, where so many workers share them; the longest-waiting is always among them."""
        first, *others = self.items
        if self.alone:
            self.drop({first})
            return [first]
        room = min(self.budget.tokens, self.tokens / share)
        others.sort(key=lambda item: abs(item.size - first.size))
        taken, longest = [first], self.tokens_of(first)
        for item in others:
            longest = max(longest, self.tokens_of(item))
            if longest * (len(taken) + 1) > room:
                break
            taken.append(item)
        self.drop(set(taken))
        return taken


class Waiting:
    """All inputs that wait, in groups."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return sum(len(group.items) for group in self.groups.values())

    def add(self, key: str, group: Callable[[], Group], items: Sequence[Item]) -> None:
        if key not in self.groups:
            self.groups[key] = group()
        self.groups[key].add(items)

    def forget(self, items: Sequence[Item]) -> None:
        """Remove inputs whose clients have left."""
        for group in self.groups.values():
            group.drop(set(items))
        self._tidy()

    def first(self) -> Group | None:
        """The group that is due first."""
        return min(self.groups.values(), key=Group.due, default=None)

    def take(self, group: Group, share: int) -> list[Item]:
        found = group.take(share)
        self._tidy()
        return found

    def put_back(self, group: Group, items: Sequence[Item]) -> None:
        """Let inputs wait again, before all others."""
        key = next((key for key, each in self.groups.items() if each is group), f"again {id(group)}")
        group.add(items, first=True)
        self.groups[key] = group

    def _tidy(self) -> None:
        self.groups = {key: group for key, group in self.groups.items() if group.items}
