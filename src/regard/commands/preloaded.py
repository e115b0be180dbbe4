"""What every process that trains needs, loaded once in the process that they are forked from.

Importing torch takes seconds, which each of several processes, and each that is started again after a fault, would
otherwise spend by itself. A scheduler may signal all processes of a run: this one leaves the answer to the others, and
goes when the one that started it does.
"""

import signal

import torch._dynamo
import torch.distributed.fsdp  # noqa: F401

import regard.api.training  # noqa: F401
from regard.commands.processes import PASSED_ON

for number in PASSED_ON:
    signal.signal(number, signal.SIG_IGN)
