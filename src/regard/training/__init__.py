"""How a model learns: one loop, and what watches it.

Read in this order: `loop.py` (fit), `run.py` (what a run is), `train.py` (from a model and batches to a model
directory), then whichever part interests you. `config.py` imports no torch.
"""
