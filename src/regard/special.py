"""The ids that every tokenizer learned here shares, and those of a vocabulary that came from elsewhere. No torch here:
a runtime without it reads text too."""

from pydantic import NonNegativeInt

from regard.checking import Settings

PAD, UNK, BOS, EOS = 0, 1, 2, 3
NAMES = ("<pad>", "<unk>", "<s>", "</s>")
BOS_SEGMENT = 2  # the segment of a BOS that stands after all texts: it belongs to none of them


class Special(Settings):
    """The ids with a meaning of their own in one vocabulary; None where it has no such token.

    BERT's [CLS] begins a text and is `bos`, its [SEP] ends one and is `eos`. Marian begins answers with its padding, so
    there `bos` is `pad`; GPT-2 has one token for both ends and none for padding.
    """

    pad: NonNegativeInt | None = None
    unk: NonNegativeInt | None = None
    bos: NonNegativeInt
    eos: NonNegativeInt
    mask: NonNegativeInt | None = None

    @property
    def silent(self) -> frozenset[int]:
        """What stands around a text and is no part of it."""
        return frozenset(number for number in (self.pad, self.bos, self.eos) if number is not None)


OWN = Special(pad=PAD, unk=UNK, bos=BOS, eos=EOS)
