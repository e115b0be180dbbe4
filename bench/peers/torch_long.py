"""torch's own exact attention."""

from __future__ import annotations

import torch.nn.functional as F
from answering import Run, Settings, answer
from attending import attending


def prepare(settings: Settings) -> Run:
    return attending(settings, lambda: F.scaled_dot_product_attention)


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
