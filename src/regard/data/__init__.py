"""Files → pairs → ids → batches; or text → ids → blocks. Knows no model; only `batches` and `blocks` know torch.

files        pairs of text from line files, TSV, CSV, JSONL and Parquet, with errors by file and line
lexicon      the CMU Pronouncing Dictionary, divided by word
examples     what a recipe's [data] names: train, valid, test, and holding pairs out
vocabularies learns a vocabulary from text
tokenizers   text ↔ ids
dropout      another segmentation of the same words, for training
filters      which pairs stay, and a count of those that do not
corpus       ids on disk, memory-mapped
planning     which rows go together into a batch
prefetch     preparing the next things while one is used
batches      tensors by token budget

text         plain text, and what a recipe's [data] names of it
tokens       the ids of a text on disk, memory-mapped
blocks       batches of blocks of a text, without padding
"""
