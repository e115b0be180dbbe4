"""What fits the data: `"auto"` as model.preset, model.dropout and training.steps, by the amount of text in data.train.

Less text asks for a smaller model, for more dropout, and for reading it more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.packing import SUFFIXES
from regard.recipes.presets import PRESETS

AUTO = "auto"
Table = dict[str, Any]

# from so many megabytes of text on, both sides together:
SIZES = ((0, "tiny"), (100, "small"), (500, "base"))  # the largest of these that the kind has
DROPOUTS = ((0, 0.3), (10, 0.1))  # 0.3 is what Wu 2021 took for Multi30k, 4 MB
EPOCHS = ((0, 100), (10, 50), (100, 20))  # how often the text is read, at most
CHARACTERS = 8  # of both sides for each token of the target
FEWEST, MOST = 4000, 100_000  # steps
UNPACKED = 3  # how much larger text is than when it is packed, about


def fitted(table: Mapping[str, Any], *, defaults: Mapping[str, Any]) -> tuple[Table, str]:
    """A recipe with what it leaves open decided, and a sentence that says what; empty if it leaves nothing open.

    `defaults` are those of [training]. With training.minutes, the plan for these decides on the steps.
    """
    given = [table.get(name) for name in ("model", "training")]
    model, training = (dict(part) if isinstance(part, Mapping) else {} for part in given)
    data = table.get("data")
    text = megabytes([data.get("train"), data.get("mix")]) if isinstance(data, Mapping) else 0.0
    chosen = []
    if model.get("preset") == AUTO:
        there = PRESETS.get(str(model.get("kind")), {})
        model["preset"] = _by(text, [(least, name) for least, name in SIZES if name in there] or [(0, AUTO)])
        chosen.append(f"preset {model['preset']}")
    if model.get("dropout") == AUTO:
        model["dropout"] = _by(text, DROPOUTS)
        chosen.append(f"dropout {model['dropout']:g}")
    if training.get("steps") == AUTO:
        training["steps"] = _steps(text, {**defaults, **training})
        chosen.append("as many steps as fit" if training.get("minutes") else f"at most {training['steps']:,} steps")
    if not chosen:
        return dict(table), ""
    both = {name: part for name, part in (("model", model), ("training", training)) if name in table}
    return {**table, **both}, f"data.train has {text:,.1f} MB of text: {', '.join(chosen)}"


def _by(text: float, table: Sequence[tuple[int, Any]]) -> Any:
    """The last entry that so many megabytes are enough for."""
    return [value for least, value in table if text >= least][-1]


def _steps(text: float, training: Mapping[str, Any]) -> int:
    """Updates in which the text is read as often as `EPOCHS` says."""
    batch = [training.get(name) for name in ("batch_tokens", "accumulate")]
    numbers = [number for number in batch if isinstance(number, int) and number > 0]
    if not text or training.get("minutes") or len(numbers) < len(batch):
        return MOST
    tokens = 1e6 * text / CHARACTERS
    steps = tokens * _by(text, EPOCHS) / (numbers[0] * numbers[1])
    return min(max(100 * round(steps / 100), FEWEST), MOST)


def megabytes(entry: Any) -> float:
    """How much text an entry of [data] names; files that are not there are reported when they are read."""
    if isinstance(entry, Mapping):
        return sum(map(megabytes, entry.values()))
    if isinstance(entry, list):
        return sum(map(megabytes, entry))
    try:
        path = Path(str(entry))
        if any(sign in path.name for sign in "*?"):
            return sum(megabytes(str(each)) for each in path.parent.glob(path.name))
        if not path.is_file():
            return 0.0
        return path.stat().st_size * (UNPACKED if path.suffix in (*SUFFIXES, ".parquet") else 1) / 1e6
    except (OSError, ValueError):
        return 0.0
