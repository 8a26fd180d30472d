"""Kneser-Ney against an obvious implementation, and against what a probability has to be."""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.errors import DataError, SettingsError
from elmokit.text.vocabulary import Vocabulary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks/ is not part of an installed package", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))
try:
    import ngram
finally:
    sys.path.remove(str(BENCHMARKS))

B, E, U = 0, 1, 2
N_WORDS = 40
WORDS = [w for w in range(N_WORDS) if w != B]
FALLBACK = [0.0, 0.5, 1.0, 1.5]

Sentences = list[list[int]]


def flat(sentences: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    ids = np.array([w for sentence in sentences for w in sentence], dtype=np.int32)
    return ids, np.cumsum([0, *map(len, sentences)])


def toy(n_sentences: int, seed: int) -> Sentences:
    """Words follow each other by a rule with exceptions; some sentences are empty, words beyond 35 never occur."""
    random = np.random.default_rng(seed)
    sentences = []
    for _ in range(n_sentences):
        sentence = [int(random.integers(2, 36))]
        for _ in range(int(random.integers(0, 12))):
            by_rule = (sentence[-1] * 3 + int(random.integers(0, 3))) % 34 + 2
            sentence.append(by_rule if random.random() < 0.8 else int(2 + 33 * random.random() ** 3))
        sentences.append(sentence if random.random() > 0.03 else [])
    return sentences


TRAIN, TEST = toy(400, seed=1), [*toy(60, seed=2), [37, 38, 5, 39]]


class Slow:
    """Interpolated Kneser-Ney from its definition, one dictionary an order."""

    def __init__(self, sentences: Sentences, order: int, modified: bool) -> None:
        raw: dict[int, Counter[tuple[int, ...]]] = {n: Counter() for n in range(1, order + 1)}
        for sentence in sentences:
            marked = (B, *sentence, E)
            for n in raw:
                raw[n].update(marked[i : i + n] for i in range(len(marked) - n + 1))
        self.order, self.counts, self.discounts = order, {}, {}
        for n in raw:
            counts = Counter(raw[n])
            if n < order:
                before = defaultdict(set)
                for gram in raw[n + 1]:
                    before[gram[1:]].add(gram[0])
                counts = Counter({g: c if g[0] == B else len(before[g]) for g, c in raw[n].items()})
            if n == 1:
                del counts[(B,)]
            self.counts[n], self.discounts[n] = counts, self._discounts(counts, modified)
        self.after: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for counts in self.counts.values():
            for gram, count in counts.items():
                self.after[gram[:-1]].append((gram[-1], count))

    def _discounts(self, counts: Counter[tuple[int, ...]], modified: bool) -> list[float]:
        n = [sum(1 for c in counts.values() if c == i) for i in range(5)]
        if not modified:
            d = n[1] / (n[1] + 2 * n[2]) if n[1] else 0.5
            return [0, d, d, d]
        if 0 in n[1:]:
            return FALLBACK
        y = n[1] / (n[1] + 2 * n[2])
        found = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
        return [0, *found] if all(0 < d <= i + 1 for i, d in enumerate(found)) else FALLBACK

    def prob(self, context: tuple[int, ...], word: int) -> float:
        lower = self.prob(context[1:], word) if context else 1 / len(WORDS)
        after = self.after.get(context, [])
        if not after:
            return lower
        d = self.discounts[len(context) + 1]
        count = dict(after).get(word, 0)
        taken = sum(d[min(c, 3)] for _, c in after)
        return (count - d[min(count, 3)] + taken * lower) / sum(c for _, c in after)

    def log_probs(self, sentences: Sentences) -> list[float]:
        found = []
        for sentence in sentences:
            marked = (B, *sentence, E)
            for i in range(1, len(marked)):
                found.append(float(np.log(self.prob(marked[max(0, i - self.order + 1) : i], marked[i]))))
        return found


def trained(sentences: Sentences, order: int, **options: Any) -> ngram.KneserNey:
    return ngram.KneserNey.train(*flat(sentences), order=order, n_words=N_WORDS, begin=B, end=E, **options)


def distribution(model: Any, context: list[int], n_words: int = N_WORDS) -> np.ndarray:
    """p(word | sentence so far) of every word but the begin mark."""
    sentences = [context if word == E else [*context, word] for word in range(n_words) if word != B]
    ids, starts = flat(sentences)
    log_probs = model.log_probs(ids, starts)
    return np.exp([log_probs[start + i + len(context)] for i, start in enumerate(starts[:-1])])


@pytest.mark.parametrize("modified", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_it_equals_the_definition(order: int, modified: bool) -> None:
    slow = Slow(TRAIN, order, modified)
    model = trained(TRAIN, order, modified=modified)
    for n, level in enumerate(model.levels, start=1):
        np.testing.assert_allclose(level.discounts, slow.discounts[n], rtol=0, atol=1e-15)
    np.testing.assert_allclose(model.log_probs(*flat(TEST)), slow.log_probs(TEST), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.log_probs(*flat(TRAIN)), slow.log_probs(TRAIN), rtol=0, atol=1e-12)


def test_the_toy_text_tests_worked_out_discounts_and_fallen_back_ones() -> None:
    """Else the test above would compare little: its counts are those of a real text in all orders but the first."""
    fallen_back = [level.discounts.tolist() == FALLBACK for level in trained(TRAIN, 3).levels]
    assert True in fallen_back and False in fallen_back


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_probabilities_add_up_to_one_after_any_context(order: int) -> None:
    model = trained(TRAIN, order)
    random = np.random.default_rng(3)
    seen = [sentence[:n] for sentence in TRAIN[:30] for n in (0, 1, 2, 4, len(sentence))]
    unseen = [random.integers(2, N_WORDS, size=int(n)).tolist() for n in random.integers(0, 8, size=30)]
    for context in [*seen, *unseen, [39], [5, 39], [39, 5]]:
        probs = distribution(model, context)
        assert probs.min() > 0
        assert probs.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_chunks_change_nothing(chunk: int) -> None:
    """Bit for bit: in counting, in the sums of a context, in testing."""
    whole, cut = trained(TRAIN, 4), trained(TRAIN, 4, chunk=chunk)
    for one, other in zip(whole.levels, cut.levels, strict=True):
        for name in ("keys", "counts", "discounts", "totals", "taken"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(whole.log_probs(*flat(TEST)), cut.log_probs(*flat(TEST)))


def test_a_word_of_one_context_is_not_expected_elsewhere() -> None:
    """Francisco is twice as frequent as glasses but only ever follows San (Chen & Goodman's example)."""
    san, francisco, glasses, end, unseen = 3, 4, 5, E, 30
    sentences = [[san, francisco]] * 20 + [[w, glasses] for w in range(10, 20)]
    model = trained(sentences, 2)
    unigram = ngram.Unigram.train(*flat(sentences), n_words=N_WORDS, begin=B, end=E)

    def after(some: Any, context: list[int], word: int) -> float:
        return distribution(some, context)[WORDS.index(word)]

    assert after(unigram, [unseen], francisco) > 1.8 * after(unigram, [unseen], glasses)
    assert after(model, [unseen], glasses) > 5 * after(model, [unseen], francisco)
    assert after(model, [san], francisco) > 0.9
    assert after(model, [san, francisco], end) > 0.9


def test_by_hand() -> None:
    """`a b`, `a b`, `c b`: two words before b, so its continuation count is 2; <S> a keeps its two occurrences."""
    a, b, c = 3, 4, 5
    model = trained([[a, b], [a, b], [c, b]], 2, modified=False)
    unigram, bigram = model.levels
    assert dict(enumerate(unigram.counts.tolist())) | {a: 1, b: 2, c: 1, E: 1, B: 0} == dict(enumerate(unigram.counts))
    assert unigram.totals.tolist() == [5] and bigram.totals[[B, a, b, c, E]].tolist() == [3, 2, 3, 1, 0]
    d1, d2 = 3 / (3 + 2 * 1), 2 / (2 + 2 * 2)  # n1 and n2: (a c </S>, b), and (<S>c cb, <S>a ab)
    lower = (1 - d1) / 5 + 4 * d1 / 5 / 39
    assert model.log_probs(*flat([[a]]))[0] == pytest.approx(np.log((2 - d2) / 3 + 2 * d2 / 3 * lower), abs=1e-12)


def test_n_grams_at_a_sentence_begin_keep_their_occurrences() -> None:
    """Nothing stands before the begin mark, so there is nothing to count continuations of."""
    model = trained([[3, 4]] * 7 + [[5, 3, 4]] * 2, 3)
    at = model.levels[1].find(np.array([B, 3]), np.array([3, 4]))
    assert model.levels[1].counts[at].tolist() == [7, 2]


def test_the_lowest_order_counts_continuations_and_order_one_occurrences() -> None:
    """With no order above it there is nothing to continue."""
    sentences = [[3, 4]] * 6 + [[5, 3]]
    assert trained(sentences, 1).levels[0].counts[[B, E, 3, 4, 5]].tolist() == [0, 7, 7, 6, 1]
    assert trained(sentences, 2).levels[0].counts[[B, E, 3, 4, 5]].tolist() == [0, 2, 2, 1, 1]


def test_an_order_beyond_the_longest_sentence_adds_nothing() -> None:
    """Highest orders without a single n-gram: their contexts are never found. (4-grams are all whole sentences.)"""
    sentences = [[3, 4], [4], [3, 4]]
    five, seven = trained(sentences, 5), trained(sentences, 7)
    assert len(seven.levels[-1].keys) == 0
    np.testing.assert_allclose(five.log_probs(*flat(TEST)), seven.log_probs(*flat(TEST)), atol=1e-12)


def test_the_unigram_is_relative_frequency_plus_one() -> None:
    model = ngram.Unigram.train(*flat([[3, 3], [4]]), n_words=6, begin=B, end=E)
    # Words 1 to 5; counts 2, 0, 2, 1, 0, and one more each.
    np.testing.assert_allclose(distribution(model, [4], n_words=6), np.array([3, 1, 3, 2, 1]) / 10)
    assert ngram.perplexity(model.log_probs(*flat([[3], [4]]))) == pytest.approx((0.3 * 0.3 * 0.2 * 0.3) ** -0.25)


def test_backward_is_the_reversed_sentences() -> None:
    ids, starts = ngram.reverse(*flat(TRAIN))
    backward = ngram.KneserNey.train(ids, starts, order=3, n_words=N_WORDS, begin=E, end=B)
    by_hand = Slow([[{B: E, E: B}.get(w, w) for w in sentence[::-1]] for sentence in TRAIN], 3, True)
    found = backward.log_probs(*ngram.reverse(*flat(TEST)))
    np.testing.assert_allclose(found, by_hand.log_probs([s[::-1] for s in TEST[::-1]]), rtol=0, atol=1e-12)


def test_perplexity_of_two_directions_is_their_geometric_mean() -> None:
    forward, backward = np.log([0.5, 0.25]), np.log([0.1, 0.2])
    both = ngram.perplexity(forward, backward)
    assert both == pytest.approx((ngram.perplexity(forward) * ngram.perplexity(backward)) ** 0.5)


@pytest.mark.parametrize(
    ("ids", "starts", "message"),
    [
        ([3, 99], [0, 2], r"\[0, 40\), found 3 to 99"),
        ([3, -1], [0, 2], "found -1 to 3"),
        ([3, E], [0, 2], "marks"),
        ([3, B], [0, 2], "marks"),
        ([3, 4], [0, 1], "rise from 0 to 2"),
        ([3, 4], [0, 2, 1, 2], "rise"),
        ([], [0], "one sentence"),
    ],
)
def test_wrong_text_is_refused(ids: list[int], starts: list[int], message: str) -> None:
    arrays = np.array(ids, dtype=np.int64), np.array(starts)
    with pytest.raises(DataError, match=message):
        ngram.KneserNey.train(*arrays, order=2, n_words=N_WORDS, begin=B, end=E)
    with pytest.raises(DataError, match=message):
        trained(TRAIN, 2).log_probs(*arrays)


@pytest.mark.parametrize(("order", "n_words"), [(0, 40), (3, 2), (3, 2**20 + 1)])
def test_wrong_settings_are_refused(order: int, n_words: int) -> None:
    with pytest.raises(SettingsError, match="order must be positive"):
        ngram.KneserNey.train(*flat([[2]]), order=order, n_words=n_words, begin=B, end=E)


def test_a_vocabulary_keeps_the_commonest_words() -> None:
    text = ngram.Text.of([["b", "a", "<unk>", "c"], ["a", "b", "d", "<S>", "<unk>"], ["d", "a"]])
    assert text.vocabulary(min_count=2).words == ("<S>", "</S>", "<UNK>", "a", "b", "d")
    assert text.vocabulary(min_count=2, max_words=5).words == ("<S>", "</S>", "<UNK>", "a", "b")
    assert text.vocabulary(min_count=2, max_words=2).words == ("<S>", "</S>", "<UNK>")


def test_unknown_words_are_spelt_out() -> None:
    """A word that is `<unk>` in the text itself is not: it is all there is."""
    text = ngram.Text.of([["a", "grün", "<unk>"], ["</S>", "grün"]])
    vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "a"))
    assert text.ids(vocabulary).tolist() == [3, 2, 2, 2, 2]
    assert text.spelling_bits(vocabulary) == 2 * 8 * (5 + 1) + 8 * (4 + 1)
    assert text.n_characters == 1 + 4 + 5 + 4 + 4 + 5 + 2


def test_lines_are_sentences_or_are_split(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.txt", tmp_path / "packed.txt.xz"
    plain.write_text("One line. Here, two.\n\n \nAnd more\n")
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    by_line = [("One", "line.", "Here,", "two."), ("And", "more")]
    assert list(ngram.sentences_of([plain, packed], "whitespace")) == by_line * 2
    split = [("One", "line", "."), ("Here", ",", "two", "."), ("And", "more")]
    assert list(ngram.sentences_of([packed], "moses")) == split


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, sentences in (("train.txt", TRAIN), ("test.txt", TEST)):
        lines = [" ".join(f"w{word}" for word in sentence) for sentence in sentences]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return ["--train", str(tmp_path / "train.txt"), "--test", str(tmp_path / "test.txt")]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux")
def test_the_command(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ngram.main([*files, "--order", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    both = (found["perplexity_forward"] * found["perplexity_backward"]) ** 0.5
    assert found["perplexity"] == pytest.approx(both)
    n_words = sum(len(sentence) for sentence in TEST)
    assert found["tokens"] == n_words + sum(1 for sentence in TEST if sentence)
    assert found["oov_share"] == pytest.approx(3 / n_words)
    bits = found["tokens"] * np.log2(both) + 3 * 8 * (len("w37") + 1)
    assert found["bits_per_character"] == pytest.approx(bits / found["characters"])
    assert ngram.main([*files, "--order", "1"]) == 0
    assert "perplexity" in capsys.readouterr().out


def test_the_command_names_the_missing_file(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ngram.main([*files[:2], "--test", "nowhere.txt"]) == 1
    assert "nowhere.txt" in capsys.readouterr().err
