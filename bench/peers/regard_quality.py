"""regard's own training by its bundled recipe; validation is greedy, on the test set, and its time is not counted."""

from __future__ import annotations

from typing import Any

from answering import Run, Settings, answer

from regard.api import train


def prepare(settings: Settings) -> Run:
    folder, languages = settings["folder"], settings["languages"]
    files = {part: [f"{folder}/{part}.{language}" for language in languages] for part in ("train", "test")}
    train_pair, test_pair = ('{{source="{}", target="{}"}}'.format(*files[part]) for part in ("train", "test"))
    changes = [
        f"data.train={train_pair}",
        f"data.valid={test_pair}",
        f"data.test={test_pair}",
        f"tokenizer.vocabulary={settings['vocabulary']}",
        f"training.threads={settings['threads']}",
        f"training.validate_every={settings['validate_every']}",
        f"training.record_every={settings['validate_every']}",
        *settings["changes"],
    ]

    def run(asked: Settings) -> dict[str, Any]:
        limit = f"training.minutes={60 * asked['hours']}"
        report = train(settings["recipe"], out=f"{folder}/regard", changes=[*changes, limit]).report
        seconds = {point["step"]: point["learning_seconds"] for point in report["history"]}
        curve = [(seconds[scores["step"]], scores["bleu"]) for scores in report["validations"]]
        return {"curve": curve, "final": report["scores"]["bleu"], "seconds": report["seconds"]}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch", "sacrebleu"))
