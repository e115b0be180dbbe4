"""Sets: lists whose order means nothing, each with a label or numbers.

examples   files become examples
scale      numbers in units of their standard deviation
batches    examples become batches (imports torch)
"""
