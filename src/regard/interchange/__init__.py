"""Other people's formats.

ctranslate2   a Transformer as a CTranslate2 directory, for fast answers on CPUs
"""
