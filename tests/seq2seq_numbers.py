"""The recurrent encoder-decoder in NumPy, from the equations of the papers."""

import numpy as np
from numpy.typing import NDArray

from regard.models.seq2seq import Seq2Seq

Array = NDArray[np.float64]


class Numbers:
    """The same model in NumPy: one sentence, one step, one pair at a time, from the equations of the papers."""

    def __init__(self, model: Seq2Seq, *, score: str, order: str, cell: str) -> None:
        self.p = {name: value.double().numpy() for name, value in model.state_dict().items()}
        self.score_name, self.order, self.cell_name = score, order, cell
        self.embedding = self.p["source.table.weight"].shape[1]
        self.width = self.p["decoder.readout.weight"].shape[1] // (1 if score == "none" else 2)
        self.layers = len(model.encoder.layers)

    def cell(self, prefix: str, suffix: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """c_t is carried along unchanged by the cells that have none."""
        from_x = self.p[f"{prefix}.weight_ih_l0{suffix}"] @ x + self.p[f"{prefix}.bias_ih_l0{suffix}"]
        from_h = self.p[f"{prefix}.weight_hh_l0{suffix}"] @ h + self.p[f"{prefix}.bias_hh_l0{suffix}"]
        if self.cell_name == "rnn":
            return np.tanh(from_x + from_h), c
        if self.cell_name == "lstm":
            i, f, g, o = np.split(from_x + from_h, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            return sigmoid(o) * np.tanh(c), c
        (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3), np.split(from_h, 3)
        z = sigmoid(xz + hz)
        return z * h + (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn), c

    def encode(self, tokens: list[int]) -> tuple[list[Array], list[tuple[Array, Array]]]:
        """The states of the last layer, and for each layer where the decoder starts."""
        xs = [self.embedding**0.5 * self.p["source.table.weight"][token] for token in tokens]
        last = []
        for layer in range(self.layers):
            ways, ends = [], []
            for suffix, order in (("", xs), ("_reverse", xs[::-1])):
                h, c, states = np.zeros(self.width // 2), np.zeros(self.width // 2), []
                for x in order:
                    h, c = self.cell(f"encoder.layers.{layer}", suffix, x, h, c)
                    states.append(h)
                ways.append(states)
                ends.append((h, c))
            xs = [np.concatenate(pair) for pair in zip(ways[0], ways[1][::-1], strict=True)]
            last.append((np.concatenate([h for h, _ in ends]), np.concatenate([c for _, c in ends])))
        return xs, last

    def score(self, q: Array, k: Array, j: int) -> float:
        part = {name.removeprefix("decoder.attention.score."): value for name, value in self.p.items()}
        match self.score_name:
            case "cosine":
                return float(np.exp(part["log_sharpness"][0]) * (q @ k) / np.linalg.norm(q) / np.linalg.norm(k))
            case "additive":
                inner = part["project_query.weight"] @ q + part["project_key.weight"] @ k + part["project_key.bias"]
                return float(part["combine.weight"][0] @ np.tanh(inner))
            case "location":
                return float(part["project.weight"][j] @ q)
            case "general":
                return float(q @ part["project.weight"].T @ k)
            case "dot":
                return float(q @ k)
        return float(q @ k) / self.width**0.5

    def look(self, q: Array, memory: list[Array]) -> tuple[Array, Array]:
        if self.score_name == "none":
            return np.zeros(0), np.zeros(0)
        masses = np.exp([self.score(q, h, j) for j, h in enumerate(memory)])
        weights = masses / masses.sum()
        return sum((w * h for w, h in zip(weights, memory, strict=True)), np.zeros(self.width)), weights

    def decode(self, tokens: list[int], targets: list[int]) -> tuple[Array, Array]:
        """Hidden (T, E) and weights (T, S) for targets that are given."""
        memory, stack = self.encode(tokens)
        o = np.zeros(self.embedding)
        hidden, seen = [], []
        for target in targets:
            x = self.embedding**0.5 * self.p["target.table.weight"][target]
            if self.order == "bahdanau":
                context, weights = self.look(stack[-1][0], memory)
                x = np.concatenate([x, context])
            elif self.order == "fed":
                x = np.concatenate([x, o])
            for layer in range(self.layers):
                stack[layer] = self.cell(f"decoder.cells.layers.{layer}", "", x, *stack[layer])
                x = stack[layer][0]
            if self.order != "bahdanau":
                context, weights = self.look(x, memory)
            o = np.tanh(
                self.p["decoder.readout.weight"] @ np.concatenate([x, context]) + self.p["decoder.readout.bias"]
            )
            hidden.append(o)
            seen.append(weights)
        return np.stack(hidden), np.stack(seen)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
