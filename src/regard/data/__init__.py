"""From files to batches, by medium: pairs of texts, running text, rows of texts, pictures, graphs, sets and series.

This room knows no model and no task.

files             lines, TSV, CSV, JSONL and Parquet, with errors by file and line
packing           files packed by gzip, bzip2, xz or zstd
remote            files elsewhere, by URL
watching          how many bytes of files were read, for a progress bar
made              examples made by a rule: lists of operations, copying, addition
splits            sets for training, validation and test, and examples held out of training
vocabularies      learns a vocabulary from text
tokenizers        text ↔ ids
bpe_dropout       other segmentations of the same words, for training
kept              files that are made once and kept until their source changes
shards            a corpus on disk in parts, made by one process or several (shard_maker)
mapped            files and numbers mapped into memory, whose pages can be let go
mixing            several corpora in one, by weights and a temperature
order             the order of very many rows, computed where it is needed
planning          which rows go together into a batch
streams           the base of all batches and streams, and which process gets which batch

pairs.examples    the pairs that a recipe's [data] names
pairs.cmudict     the CMU Pronouncing Dictionary as pairs, split by word
pairs.filters     which pairs stay, and a count of those that do not
pairs.shard       pairs of texts become an Arrow file of ids
pairs.corpus      the ids of pairs on disk, memory-mapped
pairs.batches     batches of pairs by token budget
pairs.shortlist   which target tokens may translate which source token

text.text         plain text, and the texts that a recipe's [data] names
text.shard        pieces of text become a file of ids
text.tokens       the ids of a text on disk, memory-mapped
text.blocks       batches of blocks of a text, without padding

graphs.graph      a graph in memory, and neighbourhoods in it
graphs.files      .npz files, and edge lists with a table of nodes
graphs.batches    batches of a whole graph, or of neighbourhoods that are drawn

rows.framing      one text or two as a row with BOS, EOS and segments
rows.batches      batches of rows by length

series            tables of series, their frequencies, and batches of windows

Only `batches` of pairs, rows, pictures, captions, graphs and sets, `pictures.augment`, `text.blocks`, `text.lanes` and
`series.windows` import torch.
"""
