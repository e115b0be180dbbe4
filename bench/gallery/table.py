"""What the gallery shows: a section of systems after the other, a picture for each. A new picture is one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.gallery import drawings

DIGITS = '"3 1 4 1 5 9"'
GAP = '"the red [MASK] likes the old dog ."'
SENTENCE = '"the red cat likes the old dog ."'
SHAPES = "runs/gallery/shapes.npz#8"
SCENE = '"scene:red circle 14 20 11, blue square 37 24 6"'
SMALL = "--set model.layers=2 --set model.heads=4"
TRANSFORMER = f"--set model.kind=transformer {SMALL} --set model.hidden=96 --set training.learning_rate=0.005"


@dataclass(frozen=True)
class Picture:
    """A system, a sentence on what is seen, and the commands that make the picture docs/gallery/NAME.png.

    With `draw`, the commands only train, and the function draws.
    """

    name: str
    system: str
    says: str
    commands: tuple[str, ...]
    draw: Callable[[Path], None] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The commands as the page has them."""
        return self.commands if self.draw is None else (*self.commands, f"python -m bench gallery --only {self.name}")


def trained(recipe: str, model: str, *changes: str) -> str:
    """The command that trains a model of the gallery."""
    return " ".join(["regard train", f"bench/gallery/{recipe}.toml", "-o", f"runs/gallery/{model}", *changes])


def looked(name: str, model: str, text: str, *options: str) -> str:
    """The command that draws what a model of the gallery looks at."""
    return " ".join(["regard look", f"runs/gallery/{model}", text, *options, "-o", f"docs/gallery/{name}.png"])


def backwards(name: str, system: str, says: str, *changes: str, text: str = DIGITS) -> Picture:
    """A model that writes digits backwards, and what it looks at meanwhile."""
    return Picture(name, system, says, (trained("pairs", name, *changes), looked(name, name, text)))


def writing(name: str, system: str, says: str, *changes: str) -> Picture:
    """A language model, and what it looks at while it writes on."""
    return Picture(name, system, says, (trained("text", name, *changes), looked(name, name, '". the red cat"')))


def filling(name: str, system: str, says: str, *changes: str, text: str = GAP) -> Picture:
    """A model that fills gaps, and what it looks at."""
    return Picture(name, system, says, (trained("fill", name, *changes), looked(name, name, text)))


def seeing(name: str, system: str, says: str, *changes: str) -> Picture:
    """A model that names the colour of the larger object of a picture, and what it looks at."""
    return Picture(name, system, says, (trained("shapes", name, *changes), looked(name, name, SHAPES)))


def head(name: str, system: str, says: str, text: str, *changes: str) -> Picture:
    """A head on the body of `bert`, and what the model looks at."""
    return Picture(name, system, says, (BERT, trained("heads", name, *changes), looked(name, name, text)))


BERT = trained("fill", "bert", "--set model.heads=4 --set model.maximum=32 --set model.next_sentence=false")
REVERSING = trained("pairs", "transformer", TRANSFORMER)
PLACES = "The rows are what is written, the columns what is read: the last digit comes first."

GALLERY: dict[str, tuple[Picture, ...]] = {
    "Recurrent models and their attention": (
        Picture(
            "rnn",
            "RNN, a causal language model",
            "An RNN without gates has no weights over its past to show; this is how fast it learns the grammar.",
            (trained("text", "rnn", "--set model.cell=rnn", "--set training.record_every=5"),),
            partial(drawings.curve, "rnn"),
        ),
        writing(
            "lstm",
            "LSTM: gates seen as attention",
            "How much of each word the state still holds.",
            "--set model.cell=lstm --set training.steps=400",
        ),
        writing(
            "gru",
            "GRU: gates seen as attention",
            "How much of each word the state still holds.",
            "--set model.cell=gru",
        ),
        backwards(
            "fixed-vector",
            "seq2seq, fixed vector",
            "Without attention there are the gates of the encoder: how much its states hold of each digit.",
            "--set model.score=none",
        ),
        backwards("additive", "additive score (Bahdanau 2015)", PLACES, "--set model.score=additive"),
        backwards("cosine", "cosine score (Graves 2014)", PLACES, "--set model.score=cosine"),
        backwards(
            "location",
            "location score (Luong 2015)",
            "The weights depend on the step alone, not on what is read.",
            "--set model.score=location --set model.maximum=16 --set model.order=luong",
        ),
        backwards("general", "general score (Luong 2015)", PLACES, "--set model.score=general --set model.order=luong"),
        backwards("dot", "dot score (Luong 2015)", PLACES, "--set model.score=dot --set model.order=luong"),
        backwards(
            "scaled-dot",
            "scaled dot score (Vaswani 2017)",
            PLACES,
            "--set model.score=scaled_dot --set model.order=luong",
            "--set 'data.train=\"reverse:train?longest=14&examples=6000\"'",
        ),
        backwards(
            "hard",
            "hard attention (Xu 2015)",
            "Each step reads one digit alone.",
            "--set model.choice=hard --set model.score=dot --set model.order=luong --set training.steps=1200",
            "--set 'data.train=\"reverse:train?longest=14&examples=6000\"'",
            text='"3 1 4 1 5 9 2 6"',
        ),
        backwards(
            "gnmt",
            "GNMT (Wu 2016)",
            "Residual layers, of which the lowest of the decoder looks.",
            "--set model.layers=3 --set model.residual=true --set 'model.bidirectional=\"first\"'",
            "--set model.attend_from=bottom --set training.steps=600",
        ),
        backwards(
            "conv-seq2seq",
            "ConvS2S (Gehring 2017)",
            "Gated convolutions; every layer of the decoder looks, and this is the last.",
            "--set model.kind=conv_seq2seq --set model.layers=2 --set model.embedding=48 --set model.kernel=3",
            "--set training.learning_rate=0.005",
        ),
    ),
    "The Transformer": (
        Picture(
            "transformer",
            "Transformer: multi-head scaled dot-product attention over the encoder",
            "Four heads of the last decoder layer.",
            (REVERSING, looked("transformer", "transformer", DIGITS)),
        ),
        Picture(
            "encoder",
            "encoder",
            "Self-attention of its first layer.",
            (REVERSING,),
            partial(drawings.one_map, "transformer", "3 1 4 1 5 9", "encoder.blocks.0.attention"),
        ),
        Picture(
            "decoder",
            "decoder: masked self-attention",
            "No digit looks at those that come after it.",
            (REVERSING,),
            partial(drawings.one_map, "transformer", "3 1 4 1 5 9", "decoder.blocks.0.attention"),
        ),
        Picture(
            "masks",
            "masked attention",
            "Who may look at whom: causal, another order of dependence, a window, Big Bird's blocks.",
            (),
            drawings.masks,
        ),
        Picture(
            "positions",
            "positions",
            "The sinusoidal signal; how like the signals of two positions are; ALiBi's bias.",
            (),
            drawings.positions,
        ),
        Picture("schedule", "output and warm-up", "Learning rates by step.", (), drawings.schedules),
        Picture(
            "curve",
            "headline results",
            "A run ends with its scores, its cost in FLOPs and its curve.",
            (trained("pairs", "curve", TRANSFORMER, "--set training.validate_every=50"),),
            partial(drawings.curve, "curve"),
        ),
        Picture(
            "beam",
            "decoding: beam search",
            "Every hypothesis that was considered, at most three at a time; the answer is dark.",
            (REVERSING,),
            drawings.beam,
        ),
        Picture(
            "universal",
            "Universal Transformer",
            "The weight of each step in the vector of each digit, until the digit halts.",
            (
                trained(
                    "pairs",
                    "universal",
                    "--set model.kind=universal --set model.layers=4 --set model.heads=4 --set model.hidden=96",
                    "--set training.learning_rate=0.005",
                ),
            ),
            partial(drawings.one_map, "universal", "3 1 4 1 5 9", "encoder.halting"),
        ),
        Picture(
            "deepnet",
            "DeepNet",
            "A hundred layers learn with DeepNorm; with plain post-norm they do not.",
            (),
            drawings.deepnet,
        ),
        Picture(
            "experts",
            "mixture of experts",
            "Which of four experts each digit goes to.",
            (trained("pairs", "experts", TRANSFORMER, "--set model.experts=4"),),
            partial(drawings.one_map, "experts", "3 1 4 1 5 9", "encoder.blocks.1.feed_forward"),
        ),
    ),
    "Pre-training and language": (
        writing(
            "gpt",
            "GPT",
            "Causal attention: a row is what was looked at when its word was predicted.",
            f"--set model.kind=gpt {SMALL} --set model.maximum=32 --set training.learning_rate=0.003",
        ),
        Picture(
            "bert",
            "BERT",
            "Attention from and to a gap.",
            (BERT, looked("bert", "bert", GAP)),
        ),
        head(
            "pair-class",
            "fine-tuning: a pair of sentences to a class",
            "Does the same one act in both?",
            "$'the red cat likes the old dog .\\tthe small cat sees the red bird .'",
            "--set data.train=runs/gallery/pairs.tsv --set data.columns.text=1 --set data.columns.pair=2",
            "--set data.columns.label=3 --set training.steps=500 --set training.learning_rate=0.001",
        ),
        head(
            "class",
            "fine-tuning: a sentence to a class",
            "Who acts?",
            SENTENCE,
            "--set data.train=runs/gallery/labels.tsv",
        ),
        head(
            "span",
            "fine-tuning: a question to its answer in a text",
            "Who likes the dog? The question is the sentence without the one who acts.",
            "$'likes the dog .\\tthe red cat likes the old dog .'",
            "--set task=answer --set data.train=runs/gallery/questions.jsonl --set training.steps=300",
        ),
        head(
            "tags",
            "fine-tuning: words to tags",
            "A part of speech for each word.",
            SENTENCE,
            "--set task=tag --set data.train=runs/gallery/tags.tsv",
        ),
        filling(
            "elmo",
            "ELMo",
            "Two LSTMs, one in each direction: the gates of the one that reads from the beginning.",
            "--set model.kind=elmo --set model.layers=1",
            text=SENTENCE,
        ),
        Picture(
            "statistics",
            "what BERT looks at (Clark 2019)",
            "What each head of two layers does on average over 200 sentences.",
            (BERT,),
            drawings.statistics,
        ),
        filling(
            "xlnet",
            "XLNet",
            "Two streams: a word is predicted without seeing itself.",
            "--set model.kind=xlnet --set model.heads=4",
        ),
        Picture(
            "transformer-xl",
            "Transformer-XL",
            "Words of a segment (rows) look at the segment and, left of the line, at the memory of the one before.",
            (
                trained(
                    "text",
                    "transformer-xl",
                    f"--set model.kind=transformer_xl {SMALL} --set model.memory=32 --set training.learning_rate=0.003",
                ),
            ),
            drawings.memory,
        ),
    ),
    "Longer sequences": (
        filling(
            "linformer",
            "Linformer",
            "Words look at eight mixtures of all positions.",
            "--set model.heads=4 --set model.maximum=32 --set model.next_sentence=false",
            "--set model.attention=linformer --set model.rank=8",
        ),
        filling(
            "performer",
            "Performer",
            "The weights that positive random features stand for.",
            "--set model.heads=4 --set model.maximum=32 --set model.next_sentence=false",
            "--set model.attention=performer",
        ),
        filling(
            "big-bird",
            "Big Bird",
            "A window, a random and a global block of two words each.",
            "--set model.heads=4 --set model.maximum=32 --set model.next_sentence=false",
            "--set model.attention=big_bird --set model.blocks=2 --set model.window=2 --set model.random=1",
        ),
    ),
    "Pictures": (
        seeing(
            "vit",
            "ViT",
            "The label is the colour of the larger object. The class token looks at patches of 6 by 6 pixels.",
            "--set model.layers=2 --set model.width=64 --set model.heads=4 --set model.hidden=128",
            "--set model.patch_size=6",
        ),
        seeing(
            "swin",
            "Swin",
            "Windows, which shift in every second layer, on grids of two resolutions.",
            "--set model.kind=swin --set model.width=24 --set 'model.heads=[2, 4]' --set model.patch=4",
            "--set model.window=4",
        ),
        seeing(
            "non-local",
            "non-local block (Wang 2018)",
            "Any place of the feature map may be looked at.",
            "--set model.kind=non_local --set model.width=8 --set 'model.layers=[1, 1]' --set 'model.look=[1, 2]'",
            "--set model.stride=4",
        ),
        seeing(
            "local-attention",
            "stand-alone local attention (Ramachandran 2019)",
            "A place looks at the 5 by 5 places around it.",
            "--set model.kind=local_attention --set 'model.layers=[1, 1]' --set model.extent=5 --set model.stride=4",
        ),
        Picture(
            "feature-map",
            "attention layer on a feature map",
            "One query, key and value for each pixel. Queries and keys are the colours here, not learned, so that the "
            "pixel in the frame looks at pixels of its own colour.",
            (),
            drawings.feature_map,
        ),
        seeing(
            "glimpse",
            "a sequence of glimpses (Mnih 2014)",
            "The network sees small patches only, and chooses where to look next.",
            "--set model.kind=glimpse --set model.width=96 --set model.glimpses=4 --set training.steps=1000",
        ),
        Picture(
            "captions",
            "captioning, soft attention (Xu 2015)",
            "Where the network looked for each word. The recipe takes some minutes.",
            ("regard train captions -o runs/gallery/captions", looked("captions", "captions", SCENE)),
        ),
    ),
    "Graphs, sets and series": (
        Picture(
            "gat",
            "GAT (Veličković 2018), with the score of Brody 2022",
            "The node asks for the value of key 2, and looks at the neighbour that has it. With seeds 1 and 2 the "
            "network looks at the other neighbours instead, and answers with the value that is missing.",
            (
                "regard train graph -o runs/gallery/gat --set training.seed=3 --set training.steps=400 "
                "--set training.validate_every=200 --set training.patience=0 --set training.average_of=last",
                looked("gat", "gat", '"1:2?"', "--layer 0"),
            ),
        ),
        Picture(
            "deep-sets",
            "Deep Sets and the Set Transformer",
            "What attention pooling counted to find the largest number.",
            (
                "regard train sets -o runs/gallery/sets --set model.pooling=attention --set training.steps=1500 "
                "--set data.train=largest:train",
                looked("deep-sets", "sets", "'[3, 17, 99, 42, 8]'"),
            ),
        ),
        Picture(
            "gates",
            "forecaster, recurrent",
            "Two years of forecasts with intervals; below, what the gates keep of the past for each step.",
            ("regard train series -o runs/gallery/gates", looked("gates", "gates", "series:airline")),
        ),
        Picture(
            "forecaster",
            "forecaster, Transformer",
            "The same series; below, the weights of each step over the past.",
            (
                "regard train series -o runs/gallery/forecaster --set model.cell=transformer",
                looked("forecaster", "forecaster", "series:airline"),
            ),
        ),
    ),
}

# what another page shows, at the end of a section
ELSEWHERE = {
    "Longer sequences": """### time against length

The time of exact attention grows with the square of the length, that of the others with the length
([Long inputs](long.md)).

![Time against length](images/long-time.svg)

    python -m bench long
"""
}
