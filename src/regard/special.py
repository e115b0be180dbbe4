"""The ids that every tokenizer shares. No torch here: a runtime without it reads text too."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
NAMES = ("<pad>", "<unk>", "<s>", "</s>")
