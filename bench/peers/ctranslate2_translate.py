"""Lines in, lines out through CTranslate2 by hand:

ctranslate2_translate.py MODEL TOKENIZER BEAM WORKERS THREADS PRECISION < lines
"""

from __future__ import annotations

import sys

import ctranslate2
from tokenizers import Tokenizer

TOGETHER = 64

if __name__ == "__main__":
    folder, path, beam, workers, threads, precision = sys.argv[1:]
    translator = ctranslate2.Translator(
        folder, device="cpu", inter_threads=int(workers), intra_threads=int(threads), compute_type=precision
    )
    tokenizer = Tokenizer.from_file(path)
    lines = [line.rstrip("\n") for line in sys.stdin]
    sources = [[*encoding.tokens, "</s>"] for encoding in tokenizer.encode_batch(lines, add_special_tokens=False)]
    found = translator.translate_batch(sources, beam_size=int(beam), max_batch_size=TOGETHER, max_decoding_length=256)
    rows = [[tokenizer.token_to_id(name) for name in result.hypotheses[0]] for result in found]
    print("\n".join(tokenizer.decode_batch(rows)))
