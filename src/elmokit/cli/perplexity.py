"""`elmokit perplexity`: how well a model predicts a text."""

from __future__ import annotations

import json as json_module
from typing import Annotated

from cyclopts import Parameter

from .options import ModelOptions


def perplexity(
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    model_options: ModelOptions,
    by_document: bool = False,
    json: bool = False,
) -> None:
    """Say how well a model predicts a text, exactly, in each direction; lower is better.

    Parameters
    ----------
    text
        A file, folder or glob, compressed or not; - is standard input. Blank lines part documents.
    by_document
        A line for each document too.
    json
        Print JSON: one object, or with --by-document one a document and the whole last.
    """
    from ..pretraining.measure import perplexities
    from ..settings import to_plain

    for name, found in perplexities(text, model_options.load(), by_document=by_document):
        if json:
            print(json_module.dumps({**({"document": name} if name else {}), **to_plain(found)}))
            continue
        both = ", ".join(f"{d} {x:.2f}" for d, x in (("forward", found.forward), ("backward", found.backward)) if x)
        print(
            f"{f'{name}: ' if name else ''}perplexity {found.perplexity:.2f} ({both}) · {found.tokens:,} predictions "
            f"each way · {found.oov_share:.2%} unknown · {found.bits_per_character:.3f} bits a character"
        )
