"""JoeyNMT's own training as its users have it: sentencepiece, its command line, its published Transformer settings.

Adam and the Noam schedule are those of its small Transformer (betas 0.9 and 0.98, factor 0.5, 1000 steps of warm-up);
label smoothing 0.1, dropout 0.3, 4096 tokens a batch and pre-norm those of its IWSLT14 Transformer, whose own schedule,
by plateaus, JoeyNMT 2.3.0 cannot build with torch 2.7 or later. The model is as large as regard's. Validation is
greedy, on the test set, and its time is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import sentencepiece
import yaml
from answering import Run, Settings, answer
from joey_log import learning_curve

SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}


def prepare(settings: Settings) -> Run:
    """`folder` holds train.LANGUAGE and test.LANGUAGE, plain text."""
    folder = Path(settings["folder"])
    languages = settings["languages"]
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(folder / f"train.{language}") for language in languages),
        model_prefix=str(folder / "joint"),
        vocab_size=settings["vocabulary"],
        model_type="bpe",
        character_coverage=1.0,
        **{f"{name}_id": number for name, number in SPECIAL.items()},
    )
    pieces = (folder / "joint.vocab").read_text(encoding="utf-8").splitlines()
    (folder / "vocabulary.txt").write_text("\n".join(line.split("\t")[0] for line in pieces) + "\n", encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(_config(settings, folder)), encoding="utf-8")

    def run(asked: Settings) -> dict[str, Any]:
        command = [sys.executable, "-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"]
        deadline = time.monotonic() + 3600 * asked["hours"]
        log = folder / "joeynmt" / "train.log"
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as training:
            while training.poll() is None and time.monotonic() < deadline:
                if any(bleu >= asked["bleu"] for _, bleu in _curve(log)):
                    break
                time.sleep(2)
            training.terminate()
        if training.returncode > 0:
            raise RuntimeError(f"JoeyNMT ended with code {training.returncode}")
        return {"curve": _curve(log)}

    return run


def _config(settings: Settings, folder: Path) -> dict[str, Any]:
    side = {
        "type": "transformer",
        "num_layers": settings["layers"],
        "num_heads": settings["heads"],
        "embeddings": {"embedding_dim": settings["width"], "scale": True, "dropout": 0.0},
        "hidden_size": settings["width"],
        "ff_size": settings["hidden"],
        "dropout": 0.3,
        "layer_norm": "pre",
    }
    text = [
        {
            "lang": language,
            "max_length": 128,
            "level": "bpe",
            "voc_file": str(folder / "vocabulary.txt"),
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": str(folder / "joint.model")},
        }
        for language in settings["languages"]
    ]
    return {
        "name": "multi30k",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "joeynmt"),
        "use_cuda": False,
        "random_seed": 42,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "test"),
            "dataset_type": "plain",
            "src": text[0],
            "trg": text[1],
        },
        "testing": {"beam_size": 5, "beam_alpha": 1.0, "eval_metrics": ["bleu"], "max_output_length": 100},
        "training": {
            "optimizer": "adam",
            "normalization": "tokens",
            "adam_betas": [0.9, 0.98],
            "scheduling": "noam",
            "learning_rate_factor": 0.5,
            "learning_rate_warmup": 1000,
            "learning_rate": 0.001,
            "learning_rate_min": 1e-8,
            "label_smoothing": 0.1,
            "batch_size": settings["batch_tokens"],
            "batch_type": "token",
            "early_stopping_metric": "bleu",
            "epochs": 1000,
            "validation_freq": settings["validate_every"],
            "logging_freq": settings["validate_every"],
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": side,
            "decoder": side,
        },
    }


def _curve(log: Path) -> list[tuple[float, float]]:
    return [] if not log.exists() else learning_curve(log.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    answer(prepare, packages=("torch", "joeynmt", "sentencepiece", "sacrebleu"))
