"""regard's forms of attention over long inputs, each as `[model] attention` names it."""

from __future__ import annotations

from answering import Run, Settings, answer
from attending import Attention, attending
from torch import Tensor

from regard.attention.cache import Projected
from regard.models.bert import BertConfig
from regard.models.gpt import GPTConfig


def prepare(settings: Settings) -> Run:
    """The heads of one layer of a model, of which `look` is measured: all but the four linear maps."""
    form, causal = settings["form"], settings["causal"]
    own = {name: settings[name] for name in settings["own"]}

    def make() -> Attention:
        config = (GPTConfig if causal else BertConfig)(attention=form, **own)
        heads = config.heads_of(
            form,
            settings["heads"] * settings["width"],
            heads=settings["heads"],
            causal=causal,
            layer=0,
            maximum=settings["length"],
        )

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            new = Projected(heads.score.keys(key), value)
            return heads.look(heads.score.queries(query), new, None, pattern=heads.pattern, bias=None)

        def attend_merged(*parts: Tensor) -> Tensor:
            query, key, value = (part.unflatten(2, (settings["heads"], -1)).transpose(1, 2) for part in parts)
            return attend(query, key, value).transpose(1, 2).flatten(2)

        return attend_merged if settings["merged"] else attend

    return attending(settings, make, merged=settings["merged"])


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
