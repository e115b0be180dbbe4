"""A job is a task with all that surrounds it: from a recipe to a run, from a directory to a model with its verbs.

base         what every job has in common
pairs        one text in, one text out: translate, transcribe
translator   the model that comes of it
write        plain text: write
writer       the model that comes of it
readers      texts in, labels, tags or spans out: classify, tag, answer, fill
reader       the model that comes of it
embedder     one text in, one vector out: embed
bodies       what a model takes from another to start with
imported     models from elsewhere, and back
stored       the files of a model directory
"""

from __future__ import annotations

from regard.jobs.base import Job, Model
from regard.jobs.embedder import EMBED
from regard.jobs.pairs import PairsJob
from regard.jobs.readers import ANSWER, CLASSIFY, FILL, TAG
from regard.jobs.write import WriteJob

JOBS: dict[str, Job] = {
    "translate": PairsJob(),
    "transcribe": PairsJob(),
    "write": WriteJob(),
    "embed": EMBED,
    "classify": CLASSIFY,
    "tag": TAG,
    "answer": ANSWER,
    "fill": FILL,
}

__all__ = ["JOBS", "Job", "Model"]
