"""Languages by their codes: English names, and which of some languages a text has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LETTERS = 20_000  # of a text, more than enough to tell its language
NAMES = dict(
    row.split(" ", 1)
    for row in """
af Afrikaans/am Amharic/ar Arabic/as Assamese/az Azerbaijani/be Belarusian/bg Bulgarian/bn Bengali/bo Tibetan
br Breton/bs Bosnian/ca Catalan/ceb Cebuano/cs Czech/cy Welsh/da Danish/de German/dsb Lower Sorbian/el Greek
en English/eo Esperanto/es Spanish/et Estonian/eu Basque/fa Persian/fi Finnish/fo Faroese/fr French/fy Frisian
ga Irish/gd Scottish Gaelic/gl Galician/gu Gujarati/ha Hausa/he Hebrew/hi Hindi/hr Croatian/hsb Upper Sorbian
ht Haitian Creole/hu Hungarian/hy Armenian/id Indonesian/ig Igbo/is Icelandic/it Italian/ja Japanese/jv Javanese
ka Georgian/kk Kazakh/km Khmer/kn Kannada/ko Korean/ku Kurdish/ky Kyrgyz/la Latin/lb Luxembourgish/lo Lao
lt Lithuanian/lv Latvian/mg Malagasy/mi Maori/mk Macedonian/ml Malayalam/mn Mongolian/mr Marathi/ms Malay/mt Maltese
my Burmese/nb Norwegian Bokmål/nds Low German/ne Nepali/nl Dutch/nn Norwegian Nynorsk/no Norwegian/oc Occitan/or Odia
pa Punjabi/pl Polish/ps Pashto/pt Portuguese/qu Quechua/rm Romansh/ro Romanian/ru Russian/rw Kinyarwanda/sa Sanskrit
sd Sindhi/si Sinhala/sk Slovak/sl Slovenian/sn Shona/so Somali/sq Albanian/sr Serbian/st Sotho/sv Swedish/sw Swahili
ta Tamil/te Telugu/tg Tajik/th Thai/ti Tigrinya/tk Turkmen/tl Tagalog/tn Tswana/tr Turkish/tt Tatar/ug Uyghur
uk Ukrainian/ur Urdu/uz Uzbek/vi Vietnamese/wo Wolof/xh Xhosa/yi Yiddish/yo Yoruba/zh Chinese/zu Zulu
""".strip()
    .replace("\n", "/")
    .split("/")
)


def name_of(code: str) -> str:
    """The English name of a language: "German", "Portuguese (BR)"."""
    base, _, region = code.partition("-")
    name = NAMES.get(base.lower(), code)
    return f"{name} ({region})" if region and name != code else name


class Detector:
    """Tells which of these languages a text has. py3langid knows them by two letters; it is read at the first use."""

    def __init__(self, codes: Iterable[str]) -> None:
        self.codes = tuple(dict.fromkeys(codes))
        self._known: Any = None

    def told(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Each language with its share of certainty from 0 to 100, the most certain first."""
        joined = " ".join(texts)[:LETTERS]
        bases = {code.partition("-")[0].lower(): code for code in reversed(self.codes)}
        if not any(map(str.isalpha, joined)):
            return [(code, 0.0) for code in self.codes[:1]]
        ranked = {} if len(bases) < 2 else self._ranked(joined, bases)
        if not ranked:
            return [(self.codes[0], 100.0)]
        found = [(bases[base], round(100 * share, 2)) for base, share in ranked.items()]
        return sorted(found, key=lambda pair: -pair[1])

    def _ranked(self, text: str, bases: Iterable[str]) -> dict[str, float]:
        if self._known is None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            self._known = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            able = [base for base in bases if base in self._known.nb_classes]
            if able:
                self._known.set_languages(able)
        return {str(base): float(share) for base, share in self._known.rank(text) if base in set(bases)}
