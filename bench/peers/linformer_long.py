"""linformer's attention without its four linear maps, which are not measured elsewhere either."""

from __future__ import annotations

from answering import Run, Settings, answer
from attending import Attention, Given, attending
from linformer import LinformerSelfAttention
from torch import Tensor, nn


def prepare(settings: Settings) -> Run:
    def make() -> Attention:
        heads = settings["heads"]
        module = LinformerSelfAttention(heads * settings["width"], settings["length"], k=settings["rank"], heads=heads)
        module.to_q, module.to_k, module.to_v, module.to_out = Given(), Given(), Given(), nn.Identity()

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            module.to_q.tensor, module.to_k.tensor, module.to_v.tensor = query, key, value
            return module(query)

        return attend

    return attending(settings, make, merged=True)


if __name__ == "__main__":
    answer(prepare, packages=("torch", "linformer"))
