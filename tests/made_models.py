"""Model directories with random weights, made without training.

<pad> and <s> are improbable in them, as in a trained model: a feature that is always 1 speaks against both.
"""

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from regard import models, recipes
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.special import BOS, EOS, PAD
from regard.training.weights import weights_of

WORDS = [f"w{number}" for number in range(37)]
SIZES = {"encoder_layers": 3, "decoder_layers": 2, "layers": 1, "width": 30, "heads": 5, "hidden": 23, "maximum": 53}


def tokenizers(*, shared: bool) -> Tokenizers:
    source = Tokenizer.train([" ".join(WORDS)] * 2, kind="words", vocabulary=len(WORDS) + 4)
    target = Tokenizer.train([" ".join(WORDS[:29])] * 2, kind="words", vocabulary=33)
    return Tokenizers(source) if shared else Tokenizers(source, target)


def write_model(
    folder: Path,
    *,
    shared: bool = False,
    decoding: dict[str, Any] | None = None,
    seed: int = 1,
    ending: float = 0.0,
    **settings: Any,
) -> Path:
    """A model directory of random weights; the more `ending`, the shorter its answers; settings are keys of [model]."""
    folder.mkdir(parents=True, exist_ok=True)
    both = tokenizers(shared=shared)
    both.save(folder)
    settings = {
        "kind": "transformer",
        **(SIZES if settings.get("kind", "transformer") == "transformer" else {}),
        **settings,
    }
    target = None if shared else both.target.size
    config = models.config_class(settings["kind"])(**settings)
    torch.manual_seed(seed)
    module = models.from_config(config, vocabulary=both.source.size, target_vocabulary=target)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        if settings["kind"] == "transformer":
            _speak(module, settings.get("wiring", "post_norm"), ending)
    safetensors.torch.save_file(weights_of(module), folder / "weights.safetensors")
    tables = {"task": "translate", "model": config.model_dump(), "decoding": decoding or {}}
    recipe = recipes.make(tables, where="test")
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return folder


def _speak(module: nn.Module, wiring: str, ending: float) -> None:
    norm = module.decoder.final if wiring == "pre_norm" else module.decoder.blocks[-1].around_feed_forward.norm
    norm.weight[0], norm.bias[0] = 0.0, 1.0
    module.output.weight[:, 0] = 0.0
    module.output.weight[[PAD, BOS], 0] = -40.0
    module.output.weight[EOS, 0] = ending
