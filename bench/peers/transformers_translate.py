"""Lines in, lines out through transformers:  transformers_translate.py MODEL BEAM < lines"""

from __future__ import annotations

import sys

import torch
from transformers import AutoTokenizer, MarianMTModel

TOGETHER = 64

if __name__ == "__main__":
    folder, beam = sys.argv[1], int(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()
    lines = [line.rstrip("\n") for line in sys.stdin]
    with torch.inference_mode():
        for start in range(0, len(lines), TOGETHER):
            texts = [f"{line}</s>" for line in lines[start : start + TOGETHER]]
            batch = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
            found = model.generate(**batch, num_beams=beam, early_stopping=True, max_new_tokens=256)
            for text in tokenizer.batch_decode(found, skip_special_tokens=True):
                print(text.strip())
