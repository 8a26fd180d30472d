"""Words and their ids, as vocabulary files of the published models have them: one word a line, its number its id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
_NOT_A_WORD = "!!!MAXTERMID"


@dataclass(frozen=True)
class Vocabulary:
    """Ids begin at 0 here; a model's word embedding keeps its row 0 for padding, so a token's row is its id + 1."""

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of a word that stands twice the later line counts, as in bilm-tf.
        object.__setattr__(self, "_ids", {word: i for i, word in enumerate(self.words)})

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The id of each token; an unknown one is `<UNK>`."""
        unknown = self._ids.get(UNKNOWN)
        ids = [self._ids.get(token, unknown) for token in tokens]
        if None in ids:
            missing = tokens[ids.index(None)]
            raise DataError(
                f"the vocabulary has neither {missing!r} nor {UNKNOWN}",
                hint=f"add a line {UNKNOWN} where the model has a row for it, or leave such words out",
            )
        return [i for i in ids if i is not None]

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        try:
            text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")  # Windows editors put it there
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 at byte {error.start}", hint="convert the file to UTF-8") from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})", hint="check its permissions") from error
        return cls.from_lines(text.removesuffix("\n").split("\n") if text else ())

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Vocabulary:
        return cls(tuple(word for word in (line.removesuffix("\r") for line in lines) if word != _NOT_A_WORD))

    def write(self, path: Path) -> None:
        path.write_bytes(("\n".join(self.words) + "\n").encode("utf-8"))
