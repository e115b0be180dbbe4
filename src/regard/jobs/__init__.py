"""A job is a task with all that surrounds it: from a recipe to a run, from a directory to a model with its verbs.

base         what every job has in common
pairs        one text in, one text out: translate, transcribe
translator   the model that comes of it
write        plain text: write
writer       the model that comes of it
stored       the files of a model directory
"""

from __future__ import annotations

from regard.jobs.base import Job, Model
from regard.jobs.pairs import PairsJob
from regard.jobs.write import WriteJob

JOBS: dict[str, Job] = {"translate": PairsJob(), "transcribe": PairsJob(), "write": WriteJob()}

__all__ = ["JOBS", "Job", "Model"]
