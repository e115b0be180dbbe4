"""transformers' Big Bird attention, as in training, without its linear maps."""

from __future__ import annotations

import torch
from answering import Run, Settings, answer
from attending import Attention, Given, attending
from torch import Tensor
from transformers import BigBirdConfig, BigBirdModel
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention


def prepare(settings: Settings) -> Run:
    length, blocks = settings["length"], settings["blocks"]

    def make() -> Attention:
        config = BigBirdConfig(
            hidden_size=settings["heads"] * settings["width"],
            num_attention_heads=settings["heads"],
            block_size=blocks,
            num_random_blocks=settings["random"],
            max_position_embeddings=length,
        )
        module = BigBirdBlockSparseAttention(config, seed=0).train()  # otherwise its random blocks are all the first
        module.query, module.key, module.value = Given(), Given(), Given()
        blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, length), blocks)

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            module.query.tensor, module.key.tensor, module.value.tensor = query, key, value
            return module(query, band, rows, columns, blocked, blocked)[0]

        return attend

    return attending(settings, make, merged=True)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
