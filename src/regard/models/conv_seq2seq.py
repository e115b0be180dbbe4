"""ConvS2S: an encoder and a decoder made of gated convolutions, with attention in every layer of the decoder.

    e = E_s[x] + P,   z = encoder(e)         each layer: h ← √½ (h + GLU(W [h_{i−1} ; h_i ; h_{i+1}]))    for kernel 3
    g = E_t[y] + P                           the targets so far, from BOS on
    each decoder layer, on h_{i−2}, h_{i−1}, h_i:
        v_i = GLU(W [h_{i−2} ; h_{i−1} ; h_i])
        d_i = W_d v_i + b_d + g_i                                                               Gehring 2017, eq. 1
        c_i = √m Σ_j a_ij (z_j + e_j),   a_i = softmax_j d_iᵀ z_j                               eq. 2; m source tokens
        h_i ← √½ (h_i + √½ (v_i + W_c c_i + b_c))
    P(y_t | y_<t, x) = softmax(V (W_o h_t + b_o))

The factors keep the variance of a sum that of its parts (3.4). While training, the gradient that enters the encoder is
divided by twice the number of decoder layers, as in the authors' code: each of them adds its own, through keys and
through values. All linear maps but V are weight-normed.

| score | may look at | position | around it |
|---|---|---|---|
| dot | padding | learned | √½ (h + f(h)) |

B batch  S source length  T target length  M width  E width of embeddings  k kernel  V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from regard.attention.positions import Learned
from regard.layers.convolution import even_linear
from regard.layers.convolutional import Decoder, Encoder, Memory
from regard.layers.embedding import Embedding, tied_output
from regard.layers.padding import row_lengths
from regard.models.facts import ModelConfig
from regard.special import OWN, PAD

DEVIATION = 0.1  # of first embeddings and positions: 3.5


class ConvSeq2SeqConfig(ModelConfig):
    kind: Literal["conv_seq2seq"] = "conv_seq2seq"
    layers: PositiveInt = 4  # in the encoder, and in the decoder, unless one of the next two is given
    encoder_layers: PositiveInt | None = None
    decoder_layers: PositiveInt | None = None
    width: PositiveInt = 256
    embedding: PositiveInt | None = None  # width of the embeddings, keys and values; as `width` unless given
    kernel: PositiveInt = 3  # how many neighbouring positions a convolution reads
    maximum: PositiveInt = 1024  # how many learned positions, on each side
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    tied: bool = False  # output = target embedding; = source embedding too, where both sides share a vocabulary

    def reads(self) -> int | None:
        return self.maximum


@dataclass(frozen=True)
class State:
    """The state while decoding: the last k − 1 inputs of each layer (B, k − 1, M), how many tokens were read, the
    memory, and the sentence that each row answers (B,)."""

    past: tuple[Tensor, ...]
    length: int
    memory: Memory
    origin: Tensor

    def reorder(self, rows: Tensor) -> State:
        """These rows, in this order. Beams that change places within their sentence leave the memory as it is."""
        origin = self.origin.index_select(0, rows)
        memory = self.memory if torch.equal(origin, self.origin) else self.memory.reorder(rows)
        return State(tuple(part.index_select(0, rows) for part in self.past), self.length, memory, origin)


class ConvSeq2Seq(nn.Module):
    """Convolutional encoder-decoder with the step protocol; `target_vocabulary=None` shares one vocabulary."""

    special = OWN

    def __init__(self, config: ConvSeq2SeqConfig, *, vocabulary: int, target_vocabulary: int | None = None) -> None:
        super().__init__()
        embedding, targets = config.embedding or config.width, target_vocabulary or vocabulary
        shared = config.tied and target_vocabulary is None
        self.source = _embedding(config, vocabulary, embedding)
        self.target = self.source if shared else _embedding(config, targets, embedding)
        depths = config.encoder_layers or config.layers, config.decoder_layers or config.layers
        sizes = {"width": config.width, "embedding": embedding, "kernel": config.kernel}
        self.encoder = Encoder(depths[0], **sizes, dropout=config.dropout)
        self.decoder = Decoder(depths[1], **sizes, dropout=config.dropout)
        self.before = config.kernel - 1, config.width  # shape of what a layer of the decoder keeps
        self.output = (
            tied_output(self.target) if config.tied else even_linear(embedding, targets, dropout=config.dropout)
        )
        self.alignment = f"decoder.layers.{depths[1] - 1}.attention"

    def looks(self, path: str) -> tuple[str, str]:
        """Which side the attention at `path` looks from, and at which."""
        return "target", "source"

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Memory:
        """source (B, S) → its memory. An empty row is read as one PAD."""
        source = source if source.shape[1] else source.new_full((len(source), 1), PAD)
        lengths = row_lengths(source, lengths, pad=PAD).clamp(min=1)
        e = self.source(source)
        z = self.encoder(e, lengths)
        if self.training and z.requires_grad:
            share = 1 / (2 * len(self.decoder.layers))
            z.register_hook(lambda gradient: share * gradient)
        return Memory(z.unsqueeze(1), (z + e).unsqueeze(1), lengths)

    def start(self, memory: Memory) -> State:
        """The state before the first token: windows that reach back before it find zeros."""
        batch, device = len(memory.lengths), memory.lengths.device
        past = (memory.keys.new_zeros(batch, *self.before),) * len(self.decoder.layers)
        return State(past, 0, memory, torch.arange(batch, device=device))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token (B,) → logits (B, V) of the next one, and the state after it"""
        hidden, state = self._advance(token.unsqueeze(1), state)
        return self.output(hidden.squeeze(1)), state

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Every step at once, given the target so far: source (B, S), target (B, T) from BOS on → o (B, T, E)"""
        return self._advance(target, self.start(self.encode(source, lengths)))[0]

    def _advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        at = torch.arange(state.length, state.length + tokens.shape[1], device=tokens.device)
        hidden, past = self.decoder(self.target(tokens, at), state.past, state.memory)
        return hidden, State(past, state.length + tokens.shape[1], state.memory, state.origin)


def _embedding(config: ConvSeq2SeqConfig, vocabulary: int, width: int) -> Embedding:
    position = Learned(config.maximum, width=width)
    made = Embedding(vocabulary, width, position=position, dropout=config.dropout, scale=False)
    for table in (made.table.weight, position.table):
        nn.init.normal_(table, std=DEVIATION)
    with torch.no_grad():
        made.table.weight[PAD].zero_()
    return made
