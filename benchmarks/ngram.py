"""The n-gram models that a biLM's perplexity is compared with: unigram, and interpolated Kneser-Ney of any order.

`KneserNey` is interpolated *modified* Kneser-Ney (Chen & Goodman 1999): each order has three discounts, for n-grams
counted once, twice and more often, worked out from its own counts; `modified=False` has one (Ney et al. 1994). What
is special here:

- a closed vocabulary of ids; whoever calls has put `<UNK>` for unknown words, in training and in test;
- a sentence's end is predicted, its begin is a context only. An n-gram never crosses a border, so near the begin
  contexts are short and start with the begin mark;
- the highest order counts occurrences, those below the distinct words seen before an n-gram ("continuations"), except
  where it starts with the begin mark: nothing stands before that, so it keeps its occurrences. A model of order 1 has
  no order above it and counts occurrences;
- the lowest order is interpolated with the uniform distribution over every word but the begin mark;
- an order with too few counts to work discounts out (tiny texts, or a vocabulary that leaves no word counted once)
  takes 0.5, 1 and 1.5, as KenLM falls back to.

An n-gram's key is (index of its first n - 1 words among the n-grams of the order below) << 20 | last word, so an order
is one sorted array of uint64, found by bisection, in which n-grams of one context are neighbours.

    python benchmarks/ngram.py --train FILES --test FILE --tokenizer whitespace --order 5 --min-count 2

Backward, the same model reads each sentence from its end and predicts the begin mark at last. `--order 1` is `Unigram`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import memory_bytes, reset_peak_memory
from numpy.typing import NDArray

from elmokit.errors import DataError, ElmokitError, SettingsError
from elmokit.text.lines import lines
from elmokit.text.sentences import split_sentences
from elmokit.text.tokens import tokenizer
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

Ids = NDArray[np.signedinteger[Any]]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]

WORD_BITS = 20
CHUNK = 1 << 24
"""Positions, or contexts, worked on at a time: the temporary arrays of 16 M are half a gigabyte or so."""
FALLBACK_DISCOUNTS = (0.0, 0.5, 1.0, 1.5)


def pack(contexts: Ids, words: Ids) -> Keys:
    """The key of each n-gram."""
    return contexts.astype(np.uint64) << np.uint64(WORD_BITS) | words.astype(np.uint64)


def reverse(ids: Ids, starts: Ids) -> tuple[Ids, Ids]:
    """Each sentence from its end, the last sentence first, at no cost: the whole text is read from its end."""
    return ids[::-1], len(ids) - starts[::-1]


def with_marks(ids: Ids, starts: Ids, *, begin: int, end: int) -> NDArray[np.int32]:
    """The text with a begin and an end mark around each sentence."""
    n_sentences = len(starts) - 1
    text = np.empty(len(ids) + 2 * n_sentences, dtype=np.int32)
    n_marks = 2 * np.arange(n_sentences)
    begins, ends = starts[:-1] + n_marks, starts[1:] + n_marks + 1
    is_token = np.ones(len(text), dtype=np.bool_)
    is_token[begins] = is_token[ends] = False
    text[is_token], text[begins], text[ends] = ids, begin, end
    return text


def check_text(ids: Ids, starts: Ids, *, n_words: int, marks: tuple[int, int]) -> None:
    """Refuse what would give wrong numbers without a sign."""
    if len(starts) < 2 or starts[0] != 0 or starts[-1] != len(ids) or np.any(np.diff(starts) < 0):
        raise DataError(f"starts must rise from 0 to {len(ids)} and hold one sentence at least")
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_words:
        raise DataError(f"ids must be in [0, {n_words}), found {ids.min()} to {ids.max()}")
    if np.isin(ids, marks).any():
        raise DataError(f"a sentence holds one of its own marks {marks}", hint="leave them out: they are put around")


def pieces(starts: Ids, chunk: int) -> Iterator[tuple[int, int]]:
    """Ranges of sentences of about `chunk` predictions, one sentence at least."""
    n_predictions = starts + np.arange(len(starts))
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(n_predictions, n_predictions[first] + chunk, side="right")) - 1
        yield first, max(first + 1, last)
        first = max(first + 1, last)


def estimated_discounts(counts: Ids, *, modified: bool) -> Floats:
    """What is taken off a count of 0, 1, 2, and 3 or more."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == n)) for n in (1, 2, 3, 4))
    if not modified:
        discount = n1 / (n1 + 2 * n2) if n1 else FALLBACK_DISCOUNTS[1]
        return np.array([0.0, discount, discount, discount])
    if min(n1, n2, n3, n4) > 0:
        y = n1 / (n1 + 2 * n2)
        found = (0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 < found[n] <= n for n in (1, 2, 3)):
            return np.array(found)
    return np.array(FALLBACK_DISCOUNTS)


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order, and for each context what its counts add up to and what was taken off them."""

    keys: Keys
    counts: Ids
    discounts: Floats
    totals: Ids
    taken: Floats

    @classmethod
    def build(cls, keys: Keys, counts: Ids, *, n_contexts: int, modified: bool, chunk: int) -> Level:
        """Chunks are cut between contexts, so that sums do not depend on them."""
        discounts = estimated_discounts(counts, modified=modified)
        totals, taken = np.zeros(n_contexts, dtype=np.int32), np.zeros(n_contexts)
        for first in range(0, n_contexts, chunk):
            last = min(first + chunk, n_contexts)
            part = slice(*context_range(keys, first, last))
            contexts = (keys[part] >> np.uint64(WORD_BITS)).astype(np.int64) - first
            totals[first:last] = np.bincount(contexts, weights=counts[part], minlength=last - first)
            sizes = np.bincount(4 * contexts + np.minimum(counts[part], 3), minlength=4 * (last - first))
            taken[first:last] = (sizes.reshape(-1, 4) * discounts).sum(axis=1)
        return cls(keys, counts.astype(np.int32), discounts, totals, taken)

    def find(self, contexts: Ids, words: Ids) -> Ids:
        """The index of each n-gram, -1 where it was not seen."""
        # Bisection is several times faster when neighbours look in neighbouring places.
        wanted, inverse = np.unique(pack(contexts, words), return_inverse=True)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, at, -1)[inverse.reshape(-1)]

    def interpolate(self, contexts: Ids, at: Ids, lower: Floats) -> Floats:
        """Probabilities after seen contexts, from those of the order below."""
        counts = np.where(at >= 0, self.counts[at], 0)
        kept = counts - self.discounts[np.minimum(counts, 3)]
        return (kept + self.taken[contexts] * lower) / self.totals[contexts]

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in (self.keys, self.counts, self.totals, self.taken))


def context_range(keys: Keys, first: int, last: int) -> tuple[int, int]:
    """Where the n-grams of the contexts [first, last) are."""
    low, high = np.searchsorted(keys, pack(np.array([first, last]), np.array([0, 0])))
    return int(low), int(high)


def count_longer(text: Ids, grams: Ids, *, begin: int, chunk: int) -> tuple[Keys, Ids, NDArray[np.int32]]:
    """The n-grams one word longer than `grams`: keys, occurrences, and the index of the one that ends at each position.

    `grams` holds such indices of the order below; -1 is no n-gram: it would cross a sentence's begin.
    """
    longer = np.full(len(text), -1, dtype=np.int32)
    parts: list[tuple[Ids, Keys, Ids]] = []
    for first in range(1, len(text), chunk):
        last = min(first + chunk, len(text))
        contexts, words = grams[first - 1 : last - 1], text[first:last]
        at = first + np.flatnonzero((contexts >= 0) & (words != begin))
        part_keys, inverse, part_counts = np.unique(
            pack(grams[at - 1], text[at]), return_inverse=True, return_counts=True
        )
        longer[at] = inverse.reshape(-1)
        parts.append((np.array([first, last]), part_keys, part_counts.astype(np.int32)))
    keys = np.unique(np.concatenate([part_keys for _, part_keys, _ in parts]))
    counts = np.zeros(len(keys), dtype=np.int32)
    while parts:
        (first, last), part_keys, part_counts = parts.pop()
        where = np.searchsorted(keys, part_keys).astype(np.int32)
        counts[where] += part_counts
        here = longer[first:last]
        here[here >= 0] = where[here[here >= 0]]
    return keys, counts, longer


def continuations(longer: Ids, grams: Ids, *, n_longer: int, n_grams: int) -> Ids:
    """Of each n-gram, how many of one word more end in it: both end at the same positions."""
    ends_in = np.zeros(n_longer, dtype=np.int32)
    is_longer = longer >= 0
    ends_in[longer[is_longer]] = grams[is_longer]
    return np.bincount(ends_in, minlength=n_grams)


@dataclass(frozen=True, eq=False, kw_only=True)
class KneserNey:
    """An interpolated Kneser-Ney model; `levels[n - 1]` are its n-grams."""

    levels: tuple[Level, ...]
    n_words: int
    begin: int
    end: int
    chunk: int = CHUNK

    @classmethod
    def train(
        cls,
        ids: Ids,
        starts: Ids,
        *,
        order: int,
        n_words: int,
        begin: int,
        end: int,
        modified: bool = True,
        chunk: int = CHUNK,
    ) -> KneserNey:
        """Sentence i is `ids[starts[i]:starts[i + 1]]`, without marks; `begin` is never predicted."""
        if order < 1 or not 2 < n_words <= 1 << WORD_BITS:
            raise SettingsError(f"order must be positive and n_words in [3, 2**{WORD_BITS}], found {order}, {n_words}")
        if len(ids) + 2 * len(starts) >= 1 << 31:
            raise DataError(f"{len(ids):,} tokens are too many: positions are counted in 31 bits")
        check_text(ids, starts, n_words=n_words, marks=(begin, end))
        text = with_marks(ids, starts, begin=begin, end=end)
        keys = np.arange(n_words, dtype=np.uint64)
        counts: Ids = np.bincount(text, minlength=n_words)
        counts[begin] = 0
        grams, begins, n_contexts = text, (begin, begin + 1), 1
        levels: list[Level] = []
        for _ in range(order - 1):
            longer_keys, longer_counts, longer = count_longer(text, grams, begin=begin, chunk=chunk)
            adjusted = continuations(longer, grams, n_longer=len(longer_keys), n_grams=len(keys))
            adjusted[slice(*begins)] = counts[slice(*begins)]
            levels.append(Level.build(keys, adjusted, n_contexts=n_contexts, modified=modified, chunk=chunk))
            begins, n_contexts = context_range(longer_keys, *begins), len(keys)
            keys, counts, grams = longer_keys, longer_counts, longer
        del grams
        levels.append(Level.build(keys, counts, n_contexts=n_contexts, modified=modified, chunk=chunk))
        return cls(levels=tuple(levels), n_words=n_words, begin=begin, end=end, chunk=chunk)

    def log_probs(self, ids: Ids, starts: Ids) -> Floats:
        """Natural logarithms, sentence after sentence: each token, then the sentence's end."""
        check_text(ids, starts, n_words=self.n_words, marks=(self.begin, self.end))
        return np.concatenate(
            [
                self._piece(ids[starts[first] : starts[last]], starts[first : last + 1] - starts[first])
                for first, last in pieces(starts, self.chunk)
            ]
        )

    def _piece(self, ids: Ids, starts: Ids) -> Floats:
        text = with_marks(ids, starts, begin=self.begin, end=self.end)
        at = np.flatnonzero(text != self.begin)
        words = text[at]
        probs = np.full(len(at), 1 / (self.n_words - 1))
        contexts: Ids = np.zeros(len(at), dtype=np.int64)
        grams: Ids = text.astype(np.int64)
        for level in self.levels:
            seen = np.flatnonzero(contexts >= 0)
            # The lowest order holds every word, also those that training never saw: they are contexts of nothing.
            seen = seen[level.totals[contexts[seen]] > 0]
            found = level.find(contexts[seen], words[seen])
            probs[seen] = level.interpolate(contexts[seen], found, probs[seen])
            if level is not self.levels[0]:
                grams = np.full(len(text), -1)
                grams[at[seen]] = found
            contexts = grams[at - 1]
        return np.log(probs)

    @property
    def n_bytes(self) -> int:
        return sum(level.n_bytes for level in self.levels)


@dataclass(frozen=True, eq=False, kw_only=True)
class Unigram:
    """Relative frequencies, with one added to every word but the begin mark: a word never seen is not impossible."""

    log_frequencies: Floats
    begin: int
    end: int

    @classmethod
    def train(cls, ids: Ids, starts: Ids, *, n_words: int, begin: int, end: int) -> Unigram:
        check_text(ids, starts, n_words=n_words, marks=(begin, end))
        counts = np.bincount(ids, minlength=n_words) + 1.0
        counts[end] += len(starts) - 1
        counts[begin] = 0
        with np.errstate(divide="ignore"):
            return cls(log_frequencies=np.log(counts / counts.sum()), begin=begin, end=end)

    def log_probs(self, ids: Ids, starts: Ids) -> Floats:
        """As `KneserNey.log_probs`."""
        check_text(ids, starts, n_words=len(self.log_frequencies), marks=(self.begin, self.end))
        text = with_marks(ids, starts, begin=self.begin, end=self.end)
        return self.log_frequencies[text[text != self.begin]]

    @property
    def n_bytes(self) -> int:
        return self.log_frequencies.nbytes


Model = KneserNey | Unigram


def perplexity(*log_probs: Floats) -> float:
    """Of one direction, or the geometric mean of both: they predict equally often."""
    return math.exp(-sum(float(part.sum()) for part in log_probs) / sum(len(part) for part in log_probs))


@dataclass(frozen=True, eq=False)
class Text:
    """A tokenised text: distinct tokens in the order they come, the number of each token, where sentences start."""

    types: tuple[str, ...]
    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Text:
        numbers: dict[str, int] = {}
        tokens, starts = array("i"), array("q", [0])
        for sentence in sentences:
            tokens.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
            starts.append(len(tokens))
        return cls(tuple(numbers), np.array(tokens, dtype=np.int32), np.array(starts, dtype=np.int64))

    @property
    def counts(self) -> Ids:
        """How often each type occurs."""
        return np.bincount(self.tokens, minlength=len(self.types))

    def vocabulary(self, *, min_count: int, max_words: int | None = None) -> Vocabulary:
        """The commonest types, after the three marks, which count among `max_words`; equals in alphabetical order."""
        marks = (BEGIN, END, UNKNOWN)
        counted = [(-int(n), word) for word, n in zip(self.types, self.counts, strict=True) if n >= min_count]
        words = [word for _, word in sorted(counted) if word not in marks and word != "<unk>"]
        return Vocabulary(marks + tuple(words[: None if max_words is None else max(0, max_words - len(marks))]))

    def ids(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Every token's id. `<unk>` is how WikiText writes `<UNK>`; a mark that stands in the text is no word."""
        read = [UNKNOWN if word in ("<unk>", BEGIN, END) else word for word in self.types]
        return np.array(vocabulary.ids(read), dtype=np.int32)[self.tokens]

    def spelling_bits(self, vocabulary: Vocabulary) -> int:
        """What it costs to write out the unknown words: 8 bits a byte and 8 for the end; `<unk>` is a word as it is."""
        known = {word for word in vocabulary.words if word not in (BEGIN, END)} | {"<unk>"}
        return sum(
            8 * (len(word.encode()) + 1) * int(n)
            for word, n in zip(self.types, self.counts, strict=True)
            if word not in known
        )

    @property
    def n_characters(self) -> int:
        """Those of the tokens, and one more, a space or a line's end, for each prediction."""
        lengths = np.array([len(word) for word in self.types], dtype=np.int64)
        return int(lengths @ self.counts) + len(self.tokens) + len(self.starts) - 1


def sentences_of(paths: Sequence[Path], tokenizer_name: str) -> Iterator[tuple[str, ...]]:
    """Tokens of each sentence: with `whitespace` a line is one, else lines are split; blank lines are skipped."""
    tokenize = tokenizer(tokenizer_name)
    for path in paths:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            for line in lines(file, str(path)):  # type: ignore[arg-type]
                spans = [(0, len(line))] if tokenizer_name == "whitespace" else split_sentences(line)
                for start, end in spans:
                    if tokens := tokenize(line[start:end]).tokens:
                        yield tokens


def train_model(ids: Ids, starts: Ids, *, order: int, modified: bool, vocabulary: Vocabulary, backward: bool) -> Model:
    """The model of one direction; of order 1, `Unigram`."""
    begin, end = vocabulary.ids([END, BEGIN] if backward else [BEGIN, END])
    if backward:
        ids, starts = reverse(ids, starts)
    if order == 1:
        return Unigram.train(ids, starts, n_words=len(vocabulary), begin=begin, end=end)
    return KneserNey.train(ids, starts, order=order, n_words=len(vocabulary), begin=begin, end=end, modified=modified)


def compare(train: Text, test: Text, vocabulary: Vocabulary, *, order: int, modified: bool = True) -> dict[str, Any]:
    """Train and test both directions, one after the other so that memory holds one model."""
    train_ids, test_ids = train.ids(vocabulary), test.ids(vocabulary)
    log_probs: list[Floats] = []
    n_grams: list[list[int]] = []
    n_bytes: list[int] = []
    seconds = 0.0
    for backward in (False, True):
        start = time.perf_counter()
        model = train_model(
            train_ids, train.starts, order=order, modified=modified, vocabulary=vocabulary, backward=backward
        )
        seconds += time.perf_counter() - start
        tested = reverse(test_ids, test.starts) if backward else (test_ids, test.starts)
        log_probs.append(model.log_probs(*tested))
        n_grams.append([len(level.keys) for level in model.levels] if isinstance(model, KneserNey) else [])
        n_bytes.append(model.n_bytes)
        del model
    word_bits = -sum(float(part.sum()) for part in log_probs) / len(log_probs) / math.log(2)
    return {
        "perplexity_forward": perplexity(log_probs[0]),
        "perplexity_backward": perplexity(log_probs[1]),
        "perplexity": perplexity(*log_probs),
        "tokens": len(log_probs[0]),
        "oov_share": float(np.mean(test_ids == vocabulary.ids([UNKNOWN])[0])),
        "bits_per_character": (word_bits + test.spelling_bits(vocabulary)) / test.n_characters,
        "characters": test.n_characters,
        "vocabulary": len(vocabulary),
        "train_tokens": len(train_ids) + len(train.starts) - 1,
        "n_grams": n_grams[0],
        "training_seconds": seconds,
        "model_bytes": max(n_bytes),
    }


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Perplexity of an n-gram model: Kneser-Ney, both directions.")
    parser.add_argument("--train", type=Path, nargs="+", required=True, help="text files, plain or .xz")
    parser.add_argument("--test", type=Path, required=True, help="a text file, plain or .xz")
    parser.add_argument("--tokenizer", choices=("whitespace", "moses"), default="whitespace")
    parser.add_argument("--order", type=int, default=3, help="words of the longest n-gram; 1 is relative frequencies")
    parser.add_argument("--min-count", type=int, default=2, help="a word seen less often is <UNK>")
    parser.add_argument("--max-words", type=int, help="words of the vocabulary at most, three marks among them")
    parser.add_argument("--vocabulary", type=Path, help="a vocabulary file instead of the training text's words")
    parser.add_argument("--one-discount", action="store_true", help="plain instead of modified Kneser-Ney")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(given)
    if args.order < 1:
        parser.error(f"--order must be positive, found {args.order}")
    return args


def report(found: dict[str, Any]) -> str:
    return "\n".join(
        (
            f"perplexity          {found['perplexity']:.2f}  (forward {found['perplexity_forward']:.2f}, "
            f"backward {found['perplexity_backward']:.2f})",
            f"tokens              {found['tokens']:,} predictions a direction, sentence ends among them",
            f"out of vocabulary   {found['oov_share']:.2%} of the words; vocabulary {found['vocabulary']:,}",
            f"bits per character  {found['bits_per_character']:.4f}  (unknown words spelt out in bytes)",
            f"training            {found['training_seconds']:.1f} s for both directions, "
            f"{found['train_tokens']:,} predictions; reading before it {found['reading_seconds']:.1f} s",
            f"memory              {found['peak_memory_bytes'] / 2**20:,.0f} MiB at its highest; "
            f"the model of one direction {found['model_bytes'] / 2**20:,.0f} MiB",
        )
    )


def main(given: Sequence[str] | None = None) -> int:
    args = arguments(given)
    start = time.perf_counter()
    try:
        train = Text.of(sentences_of(args.train, args.tokenizer))
        test = Text.of(sentences_of([args.test], args.tokenizer))
        vocabulary = (
            Vocabulary.read(args.vocabulary)
            if args.vocabulary
            else train.vocabulary(min_count=args.min_count, max_words=args.max_words)
        )
        reading = time.perf_counter() - start
        reset_peak_memory()
        found = compare(train, test, vocabulary, order=args.order, modified=not args.one_discount)
    except (ElmokitError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    found = {
        "order": args.order,
        "modified": not args.one_discount,
        "tokenizer": args.tokenizer,
        **found,
        "reading_seconds": reading,
        "peak_memory_bytes": memory_bytes("VmHWM"),
    }
    print(json.dumps(found, indent=2) if args.json else report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
