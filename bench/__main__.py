"""`python -m bench NAME [options]`: run one measurement; without a name, list them."""

from __future__ import annotations

import importlib
import sys

from regard.errors import RegardError

SPEED = ("train-tiny", "train-base", "decode", "decode-latency", "run", "startup", "memory", "quality")  # `all`
WORKS = {
    "train-tiny": ("bench.training_speed:tiny", "learning, small Transformer: target tokens/s beside four peers"),
    "train-base": ("bench.training_speed:base", "learning, base Transformer: target tokens/s beside two peers"),
    "decode": (
        "bench.decoding_speed:together",
        "answering 64 sentences at a time, greedy and beam 5, beside three peers",
    ),
    "decode-latency": ("bench.decoding_speed:latency", "answering one sentence at a time, beside three peers"),
    "train-gpt": ("bench.writing_speed:training", "learning, GPT in two sizes: tokens/s beside Hugging Face's GPT-2"),
    "generate": ("bench.writing_speed:generating", "writing with a GPT, 1 and 16 texts at a time, beside `generate`"),
    "profile": ("bench.profile:main", "where the time of a training step goes, operation by operation"),
    "train-vit": ("bench.see:speed", "learning, ViT: pictures/s beside Hugging Face's ViT"),
    "run": ("bench.end_to_end:main", "`regard run` from text to text beside CTranslate2 driven by hand"),
    "one-by-one": ("bench.one_by_one:main", "one sentence at a time, warm, beside CTranslate2 driven by hand"),
    "startup": ("bench.startup:main", "a cold process to one translated sentence, beside transformers"),
    "memory": ("bench.memory:main", "peak resident memory of learning and of answering, beside peers"),
    "quality": ("bench.quality:main", "seconds of learning to a given BLEU, beside JoeyNMT"),
    "report": ("bench.report:main", "write docs/speed.md from bench/results"),
    "window": ("bench.window:main", "windowed attention against all pairs: time and memory by length"),
    "long": ("bench.long:main", "attention over long inputs: time and memory by length beside three packages"),
    "alignment": ("bench.alignment:main", "alignment error of three attentions on a made-up pair of languages"),
    "algorithms": ("bench.algorithms:main", "Universal beside the plain Transformer at lengths beyond those learned"),
    "deep": ("bench.deep:main", "a hundred layers with deep_norm and with post_norm: loss by step"),
    "lengths": ("bench.lengths:main", "attention against the fixed vector: BLEU by length of the source"),
    "families": ("bench.families:main", "RNN, ConvS2S and Transformer of one size: score, cost, path, time, memory"),
    "listops": ("bench.listops:main", "forms of attention on nested lists of digits, beside a bag of words"),
    "check": ("bench.check:main", "examples that `regard check` looks at in a second, and what it finds"),
    "prepare": ("bench.prepare:main", "many pairs prepared: peak memory, and pairs a second beside `tokenizers` alone"),
    "sets": ("bench.sets:main", "the largest of ten numbers: mean absolute error of each pooling, as published"),
    "gallery": (
        "bench.gallery:main",
        "docs/gallery.md: one picture for each system, from models that learn in seconds",
    ),
    "captions": ("bench.captions:main", "captions of drawn pictures: soft and hard attention, and a Transformer"),
    "nodes": ("bench.nodes:main", "GAT on Cora and Citeseer, DictionaryLookup, and an epoch beside PyTorch Geometric"),
    "series": ("bench.series:main", "forecasts of three series beside seasonal-naive, Naive2 and Theta"),
    "simulate": (
        "bench.simulate:main",
        "steps of 1, 2 and 4 processes, predicted and measured; estimates for 8 and 64 GPUs",
    ),
    "kill": ("bench.kill:main", "runs of one or several processes killed at random moments, beside runs that were not"),
    "two-nodes": ("bench.two_nodes:main", "two nodes in network namespaces against one node with two processes"),
    "processes": ("bench.processes:main", "learning: two processes of one thread beside one process of two"),
    "serve": ("bench.serve:main", "`regard serve` under load beside the same model offline: speed, memory, start"),
    "serve-fuzz": ("bench.serve_fuzz:main", "`regard serve` asked what schemathesis generates: no 5xx"),
    "multi30k": ("bench.recipes:multi30k", "the Multi30k recipe beside the published score"),
    "diversified": (
        "bench.diversified:main",
        "Multi30k with answers of two models, one for each direction, beside the published score",
    ),
    "g2p": ("bench.recipes:g2p", "the pronunciation recipe beside published error rates"),
    "shakespeare": ("bench.language:shakespeare", "the shakespeare recipe beside nanoGPT's published loss"),
    "wikitext2": ("bench.language:wikitext2", "the wikitext2 recipe, shortened: perplexity after so many minutes"),
    "xl": ("bench.xl:main", "Transformer-XL: perplexity by length of memory, and its speed beside re-running a window"),
    "sst2": ("bench.fine_tuning:sst2", "MiniLM fine-tuned on SST-2 beside the published accuracy"),
    "conll2003": ("bench.fine_tuning:conll2003", "MiniLM fine-tuned on CoNLL-2003: F1 of names"),
    "squad": ("bench.fine_tuning:squad", "MiniLM fine-tuned on questions of SQuAD: F1 of answers"),
    "same": ("bench.same:main", "every task beside an earlier checkout: the same losses, weights and answers"),
    "glimpses": (
        "bench.glimpses:main",
        "one shape somewhere: places that are learned, beside random ones and the centre",
    ),
    "see": ("bench.see:marks", "Fashion-MNIST and CIFAR-10 with less than 0.3 million parameters: accuracy, time"),
    "tatoeba": ("bench.recipes:tatoeba", "what `regard train pairs` reaches on English-French, untuned"),
}


def main(arguments: list[str]) -> int:
    """Run the work that the first argument names."""
    if arguments[:1] == ["all"]:
        for work in SPEED:
            _run(work, arguments[1:])
        if "--quick" not in arguments:
            _run("report", [])
        return 0
    if not arguments or arguments[0] not in WORKS:
        for name, (_, what) in WORKS.items():
            print(f"python -m bench {name:14} {what}")
        print(f"python -m bench {'all':14} {', '.join(SPEED)}, and the report")
        return 0 if not arguments else 2
    _run(arguments[0], arguments[1:])
    return 0


def _run(work: str, arguments: list[str]) -> None:
    module, _, function = WORKS[work][0].partition(":")
    getattr(importlib.import_module(module), function)(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt as stopped:
        sys.exit(f"bench: {stopped or 'stopped'}")
    except RegardError as error:
        sys.exit(f"bench: {error}")
