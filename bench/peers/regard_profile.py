"""Where the time of regard's own training steps goes: the CPU time that each operation of torch takes itself."""

from __future__ import annotations

import time
from typing import Any

import regard_gpt_train
import regard_train
from answering import Run, Settings, answer
from torch.profiler import ProfilerActivity, profile

OWN = "(between operations)"


def prepare(settings: Settings) -> Run:
    learn = (regard_gpt_train if settings["model"] == "gpt" else regard_train).prepare(settings)

    def run(asked: Settings) -> dict[str, Any]:
        begin = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            learnt = learn(asked)
        seconds = time.perf_counter() - begin
        spent = {each.key: each.self_cpu_time_total / 1e6 for each in seen.key_averages()}
        calls = {each.key: each.count for each in seen.key_averages()}
        return {"seconds": seconds, "targets": learnt["targets"], "spent": spent, "calls": calls}

    return run


if __name__ == "__main__":
    answer(prepare, packages=("torch",))
