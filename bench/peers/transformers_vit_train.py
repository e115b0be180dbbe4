"""transformers' ViTForImageClassification in a plain loop, with the weights of regard's ViT."""

from __future__ import annotations

import torch
from answering import Run, Settings, answer
from learning import learner
from reading import read_weights
from torch import Tensor
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

PARTS = {  # theirs in each layer, and ours
    "attention.q_proj": "attention.query",
    "attention.k_proj": "attention.key",
    "attention.v_proj": "attention.value",
    "attention.o_proj": "attention.output",
    "layernorm_before": "around_attention.norm",
    "layernorm_after": "around_feed_forward.norm",
    "mlp.fc1": "feed_forward.inner",
    "mlp.fc2": "feed_forward.outer",
}


def build(settings: Settings) -> ViTForImageClassification:
    """Attention drops nothing, so that it stays fused."""
    model = ViTForImageClassification(
        ViTConfig(
            hidden_size=settings["width"],
            num_hidden_layers=settings["layers"],
            num_attention_heads=settings["heads"],
            intermediate_size=settings["hidden"],
            hidden_dropout_prob=settings["dropout"],
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=1e-6,
            image_size=settings["rows"],
            patch_size=settings["patch_size"],
            num_channels=settings["channels"],
            num_labels=settings["outputs"],
            attn_implementation="sdpa",
        )
    )
    return _copied(model, read_weights(settings["weights"]))


def _copied(model: ViTForImageClassification, weights: dict[str, Tensor]) -> ViTForImageClassification:
    """Every weight of theirs from ours."""
    names = {"vit.layernorm": "body.final", "classifier": "output"}
    for number in range(model.config.num_hidden_layers):
        layer = f"vit.layers.{number}"
        names |= {f"{layer}.{theirs}": f"body.blocks.{number}.{ours}" for theirs, ours in PARTS.items()}
    found = {
        f"{theirs}.{end}": weights[f"{ours}.{end}"] for theirs, ours in names.items() for end in ("weight", "bias")
    }
    embeddings, projection = "vit.embeddings", "vit.embeddings.patch_embeddings.projection"
    found[f"{embeddings}.cls_token"] = weights["embedding.token"][None]
    found[f"{embeddings}.position_embeddings"] = weights["embedding.position.table"][None]
    shape = model.get_parameter(f"{projection}.weight").shape
    found[f"{projection}.weight"] = weights["embedding.patches.linear.weight"].view(shape)
    found[f"{projection}.bias"] = weights["embedding.patches.linear.bias"]
    model.load_state_dict(found)
    return model


def prepare(settings: Settings) -> Run:
    torch.set_num_threads(settings["threads"])
    model = build(settings)

    def loss(pictures: Tensor, _lengths: Tensor, target: Tensor) -> Tensor:
        logits = model(pixel_values=pictures.float().div_(127.5).sub_(1)).logits
        wanted = target[:, 1] - 1  # 0 means padding to the loop
        return F.cross_entropy(logits.float(), wanted, label_smoothing=settings["smoothing"], reduction="sum")

    return learner(model, loss, settings)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "transformers"))
