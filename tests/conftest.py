"""One thread: tests are small, and more threads would only wait for each other."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("regard", deadline=None)
settings.load_profile("regard")
