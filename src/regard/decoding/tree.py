"""The tokens that a beam search considered, kept and dropped, as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from regard.special import EOS


@dataclass
class Node:
    """One token considered: after which node (−1: the beginning), its log p, Σ log p so far, and its state."""

    parent: int
    token: int
    logprob: float
    sum: float
    step: int
    state: Literal["kept", "dropped", "finished", "answer"]


class Tree:
    """Grows with a beam search of one source; empty after any other search."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._rows = [-1]  # the node of each row alive
        self._step = 0

    def grow(self, candidates: Sequence[Tensor], alive: Tensor, over: Tensor) -> None:
        """One step: candidates are row, token, log p and Σ log p (C,); alive (C,) continue, over (K,) are finished."""
        rows = []
        for place, (row, token, logprob, total) in enumerate(zip(*(part.tolist() for part in candidates), strict=True)):
            if total == float("-inf"):
                continue
            state: Literal["kept", "dropped", "finished"] = "dropped"
            if bool(alive[place]):
                state = "kept"
                rows.append(len(self.nodes))
            elif place < len(over) and bool(over[place]):
                state = "finished"
            self.nodes.append(Node(self._rows[row], token, logprob, total, self._step, state))
        self._rows = rows
        self._step += 1

    def mark(self, answer: Sequence[int], *, eos: int = EOS) -> None:
        """Mark the nodes of the answer; it may end with EOS or at the maximum length."""
        parent = -1
        for token in (*answer, eos):
            way = [n for n, node in enumerate(self.nodes) if node.parent == parent and node.token == token]
            if not way:
                return
            parent = way[0]
            self.nodes[parent].state = "answer"

    def to_json(self, pieces: Callable[[list[int]], list[str]]) -> dict[str, Any] | None:
        """`beam` of docs/record.md, tokens by name; None if no beam was searched."""
        if not self.nodes:
            return None
        names = pieces([node.token for node in self.nodes])
        return {"nodes": [{**asdict(node), "token": name} for node, name in zip(self.nodes, names, strict=True)]}
