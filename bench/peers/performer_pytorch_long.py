"""performer-pytorch's attention by random features, in both directions or causal."""

from __future__ import annotations

from answering import Run, Settings, answer
from attending import attending
from performer_pytorch import FastAttention


def prepare(settings: Settings) -> Run:
    def make() -> FastAttention:
        return FastAttention(settings["width"], nb_features=settings["features"], causal=settings["causal"])

    return attending(settings, make)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "performer-pytorch"))
