"""`elmokit substitutes`: what would stand in a gap."""

from __future__ import annotations

import json as json_module
import re
from typing import Annotated

from cyclopts import Parameter

from ..errors import DataError
from .options import ModelOptions

GAP = re.compile(r"\[([^\[\]\s]+)\]|_{2,}")


def substitutes(
    sentence: str,
    /,
    *,
    model_options: ModelOptions,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 10,
    json: bool = False,
) -> None:
    """Say what the language model would put in a gap, from both sides of it.

    Parameters
    ----------
    sentence
        A sentence with one gap: "The judge ____ the case." or "The judge [heard] the case."
    number
        How many words.
    json
        Print JSON.
    """
    gaps = list(GAP.finditer(sentence))
    if len(gaps) != 1:
        raise DataError(
            f"{len(gaps)} gaps in {sentence!r:.80}, expected one", hint='write ____ or [word], as in "The ____ barked."'
        )
    embedder = model_options.load()
    # What stands in the gap is never seen, so any word will do there.
    (gap,) = gaps
    filled = f"{sentence[: gap.start()]}it{sentence[gap.end() :]}"
    cut = embedder.tokenizer(filled)
    position = next(i for i, place in enumerate(cut.offsets) if place and place[0] <= gap.start() < place[1])
    found = embedder.substitutes(cut.tokens, position, n=number)
    if json:
        print(json_module.dumps([{"word": word, "p": p} for word, p in found]))
    else:
        print("\n".join(f"{p:6.3f}  {word}" for word, p in found))
