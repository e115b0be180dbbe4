"""Other people's formats.

expressible   what CTranslate2 can express
ctranslate2   a Transformer as a CTranslate2 directory, for fast answers on CPUs
huggingface   directories of transformers, in and out
files         files of other programs, of limited size
packages      models that come inside an installed package
sentence_transformers  how the states of a text become one vector, as sentence-transformers keeps it
"""
