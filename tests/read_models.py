"""Model directories with random weights for tasks that read rows of text or continue it, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard import recipes, tasks
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.directory import ModelDirectory
from regard.recipes import is_complete, setting
from regard.special import BOS, PAD
from regard.tasks.base import Codec
from regard.training.checkpoint import to_bytes, weights_of

TEXT = "the small dog sees a red house near Paris . does an old fox sleep in Rome ?"
BERT = {"kind": "bert", "layers": 2, "width": 24, "heads": 3, "hidden": 31, "maximum": 40}
GPT = {"kind": "gpt", "layers": 2, "width": 24, "heads": 4, "hidden": 31, "maximum": 40}


def write_reader(
    folder: Path,
    task: str,
    *,
    labels: tuple[str, ...] = (),
    data: dict[str, Any] | None = None,
    decoding: dict[str, Any] | None = None,
    tokenizer: str = "words",
    mask: bool = False,
    seed: int = 3,
    **settings: Any,
) -> Path:
    """The directory of a model with random weights; settings are keys of [model], and `mask` adds a token for gaps."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"task": task, "data": data or {}, "model": settings}
    recipe = recipes.make({**tables, **({"decoding": decoding} if decoding else {})}, where="test")
    assert is_complete(recipe)
    codec = Codec(Tokenizers(Tokenizer.train([TEXT] * 2, kind=tokenizer, vocabulary=64)), labels)
    if mask:
        codec.texts().source.inner.add_special_tokens(["[MASK]"])
    made = tasks.task(task).from_setting(setting(recipe), codec)
    torch.manual_seed(seed)
    module = made.module(recipe.model)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        if task == "write" and settings.get("wiring", "pre_norm") == "pre_norm":
            _leave_unsaid(dict(module.named_parameters()))
    ModelDirectory(folder).write(codec)
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    (folder / "weights.safetensors").write_bytes(to_bytes(weights_of(module)))
    return folder


def _leave_unsaid(weights: dict[str, torch.Tensor]) -> None:
    """Make <pad> and <s> improbable, as in a trained model: a feature that is always 1 speaks against both."""
    weights["body.final.weight"][0] = 0.0
    if "body.final.bias" in weights:
        weights["body.final.bias"][0] = 1.0
    output = weights.get("output.weight", weights["embedding.table.weight"])
    output[:, 0] = 0.0
    output[[PAD, BOS], 0] = -30.0
