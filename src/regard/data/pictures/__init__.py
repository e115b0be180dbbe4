"""Pictures and their labels.

frames    what all pictures of a data set are brought to: their size and channels
reading   one picture file → pixels
sources   an entry of [data] → pictures with labels: folders, tables of paths, .npz and IDX files
augment   pictures changed at random while a model learns, in batches
batches   pictures → batches in a seeded order
"""
