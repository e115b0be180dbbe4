"""Engines other than torch: CTranslate2, in a process without torch.

choose        which engine answers a model directory
ctranslate2   the engine, its cache, its plans, and what it can answer
"""
