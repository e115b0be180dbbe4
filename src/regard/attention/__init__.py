"""Attention is soft retrieval: compare a query with every key, turn the scores into weights, average the values.

    out_i = Σ_j w_ij v_j        w_i = softmax_j( score(q_i, k_j) + bias_ij )   over the j that i may look at

Every system in regard is a choice of its parts:

    score       how a query is compared with a key          scores.py
    pattern     which keys a query may look at              patterns.py, and their algebra.py
    position    how the order of items is encoded           positions.py, relative.py
    kernel      how it is computed                          exact.py, linformer.py, performer.py

B batch   H heads   Q queries   K keys   D width of a head   M width of the model   E edges   True means "may look".
"""

from regard.attention import patterns, positions, scores
from regard.attention.cache import Cache, Past
from regard.attention.formula import attend, attend_projected, reference
from regard.attention.heads import MultiHead
from regard.attention.recorder import Recorder, deliver, recording, turn, watching

__all__ = [
    "Cache",
    "MultiHead",
    "Past",
    "Recorder",
    "attend",
    "attend_projected",
    "deliver",
    "patterns",
    "positions",
    "recording",
    "reference",
    "scores",
    "turn",
    "watching",
]
