"""The parts around attention.

Around one position: feed-forward (ReLU, GELU, SwiGLU) and dropout. Around any sublayer: the wiring of residual and
norm. Around all of it: blocks and stacks, embeddings, and the recurrent layers whose gates can be read as attention.
"""

from regard.layers.blocks import Block, Stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, tied_output
from regard.layers.feed_forward import FeedForward
from regard.layers.recurrent import Gates, Recurrent, RecurrentState, gate_weights
from regard.layers.wiring import DeepNorm, PostNorm, PreNorm, Wiring

__all__ = [
    "Block",
    "DeepNorm",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Gates",
    "PostNorm",
    "PreNorm",
    "Recurrent",
    "RecurrentState",
    "Stack",
    "Wiring",
    "gate_weights",
    "tied_output",
]
