"""What a text is written in: its script, and its language where that is plain.

A language is named when its function words are frequent and those of no other are nearly so, or when its script has no
other. Else it is unknown: Danish beside Norwegian, a mixture, a list of names.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

FUNCTION_WORDS = {
    "English": "the of and to in is was that for it with as his on be at by he this had not are but from they she",
    "German": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus",
    "French": "de la le et les des en un du une que est pour qui dans par pas au sur il plus ne se sont avec ce cette",
    "Spanish": "de la que el en y a los se del las un por con una su para es al lo como más pero sus le ha este fue",
    "Italian": "di e il la che in un a per è una con non si da del le i della al sono come dei alla nel ha più gli",
    "Portuguese": "de a o que e do da em um para com não uma os no se na por mais as dos como mas foi ao das é ele à",
    "Catalan": "de la i el que a en un per les els del una amb al és va no dels es l' d' més com són seva aquest ser",
    "Romanian": "de și în a la cu pe din care un o este nu se să mai au fost al ca pentru sau prin după sunt lui ale",
    "Dutch": "de van het een en in is dat op te met voor zijn niet aan er ook als door om bij uit naar werd maar hij",
    "Swedish": "och i att det som en på är av för med den till inte om ett han men var jag sig från vi så kan under",
    "Danish": "og i at det som en på er af for med den til ikke om et han men var jeg sig fra vi så kan efter blev",
    "Norwegian": "og i at det som en på er av for med den til ikke om et han men var jeg seg fra vi så kan etter ble",
    "Finnish": "ja on oli hän että se ei ovat joka kuin mutta myös tai sen ole kun niin sekä vuonna hänen mukaan",
    "Hungarian": "a az és hogy nem is egy volt meg de csak ezt ez már mint el ki még azt vagy van ha lehet után között",
    "Polish": "i w na z do nie się to jest że o jak przez od za po oraz dla był ale jego który była także przed są",
    "Czech": "a v se na je že s z do o k i ve za jako by pro od po byl jeho které také který ale nebo byla jsou při",
    "Turkish": "ve bir bu da de için ile olarak olan daha çok en gibi kadar sonra ne o ise değil olduğu ya var ancak",
    "Indonesian": "yang dan di dari untuk dengan pada ini itu dalam tidak adalah ke oleh sebagai juga akan atau ada",
    "Russian": "и в не на что с он я как по это но из к от за его для был она так же у бы было о до после также или",
    "Ukrainian": "і в не на що з він як до це але та від за його для був у й про також або після було є під які",
    "Bulgarian": "и на в да се за е от не с че по са като си до той му което но при който това ще през след също",
    "Serbian": "и је у да се на за од са не су који као што то из до који би али по није о био која када које",
}

ONLY_LANGUAGE = {
    "Greek": "Greek",
    "Hangul": "Korean",
    "Thai": "Thai",
    "Georgian": "Georgian",
    "Armenian": "Armenian",
    "Hiragana": "Japanese",
    "Katakana": "Japanese",
}

FREQUENT = 0.12
"""Share of the words at which function words make a language; running text has about twice as many."""
AHEAD = 1.25
"""How many times as many as those of the next language."""


def script(words: Sequence[tuple[str, int]]) -> tuple[str, float]:
    """The script of most words, and their share; nothing for a text without letters."""
    counts: Counter[str] = Counter()
    for word, count in words:
        letter = next((character for character in word if character.isalpha()), "")
        if letter:
            counts[_script_of(letter)] += count
    if not counts:
        return "", 0.0
    ((name, n),) = counts.most_common(1)
    return name, n / counts.total()


def language(words: Sequence[tuple[str, int]]) -> str | None:
    """The language of a text, by its commonest words with their counts; None when it is not plain."""
    name, _ = script(words)
    if name in ONLY_LANGUAGE:
        return ONLY_LANGUAGE[name]
    counts: Counter[str] = Counter()
    for word, count in words:
        if any(character.isalpha() for character in word):
            counts[word.lower()] += count
    shares = sorted(
        (sum(counts[word] for word in set(function_words.split())) / max(1, counts.total()), known)
        for known, function_words in FUNCTION_WORDS.items()
    )
    (second, _), (best, known) = shares[-2:]
    return known if best >= FREQUENT and best >= AHEAD * second else None


@lru_cache(maxsize=4096)
def _script_of(letter: str) -> str:
    """The first word of a letter's name is its script, but for Han."""
    name = unicodedata.name(letter, "unknown").split()[0].capitalize()
    return "Han" if name == "Cjk" else name
