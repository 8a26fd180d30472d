"""A corpus as numbers: which ids, which files, when it is used again and when it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elmokit.errors import DataError
from elmokit.pretraining import corpus, store_writing, vocabulary_builder
from elmokit.pretraining.store import TokenStore, build_store
from elmokit.pretraining.vocabulary_builder import TypeTable
from elmokit.text.characters import character_rows
from elmokit.text.config import TextConfig
from elmokit.text.vocabulary import Vocabulary

WORDS = TextConfig(tokenizer="whitespace")
TEXT = "b b a a c\na <unk> d <S>\n\ne f\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT, encoding="utf-8")


def build(content: str | None = None, *, where: str = "store", **settings) -> TokenStore:
    if content is not None:
        Path("a.txt").write_text(content, encoding="utf-8")
    settings = {"text": WORDS, "min_count": 1, "workers": 1} | settings
    return build_store(["a.txt"], Path(where), **settings)


def decoded(store: TokenStore) -> list[list[str]]:
    words = list(store.words())
    return [
        [words[i] for i in store.ids[start:end]]
        for start, end in zip(store.sentence_starts[:-1], store.sentence_starts[1:], strict=True)
    ]


# Words and ids


def test_a_store_holds_the_text() -> None:
    store = build(min_count=2)
    assert decoded(store) == [["b", "b", "a", "a", "c"], ["a", "<UNK>", "d", "<S>"], ["e", "f"]]
    assert store.document_starts.tolist() == [0, 2]
    assert (store.n_tokens, store.n_sentences, store.n_documents) == (11, 3, 2)
    assert (store.n_words, store.n_types) == (5, 10)
    assert store.ids.dtype == np.uint16


def test_the_commonest_words_come_first_and_of_equal_ones_the_first_seen() -> None:
    assert build().vocabulary.words == ("<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e", "f")
    assert build(max_words=5).vocabulary.words == ("<S>", "</S>", "<UNK>", "a", "b")
    assert build(min_count=3).vocabulary.words == ("<S>", "</S>", "<UNK>", "a")


def test_words_outside_the_vocabulary_keep_ids_and_characters_of_their_own() -> None:
    store = build(max_words=5)
    assert store.others == ("c", "d", "<S>", "e", "f")
    assert store.ids.tolist() == [4, 4, 3, 3, 5, 3, 2, 6, 7, 8, 9]
    tokens = [token for sentence in decoded(store) for token in sentence]
    np.testing.assert_array_equal(store.character_table(12)[store.ids], character_rows(tokens, 12))
    assert store.character_table(12).dtype == np.uint16


def test_counts_and_the_share_of_unknown_words() -> None:
    store = build(max_words=5)
    assert store.counts.tolist() == [0, 0, 1, 3, 2, 1, 1, 1, 1, 1]
    assert store.oov_share == 6 / 11


def test_ids_are_wider_when_there_are_more_words() -> None:
    store = build(" ".join(map(str, range(70_000))))
    assert store.ids.dtype == np.uint32
    assert decoded(store)[0][-1] == "69999"


def test_a_second_text_is_read_with_the_vocabulary_of_the_first() -> None:
    vocabulary = build(max_words=5).vocabulary
    store = build("a zz <unk> </S>\n", where="valid", vocabulary=vocabulary)
    assert store.vocabulary == vocabulary
    assert store.ids.tolist() == [3, 5, 2, 6]
    assert store.others == ("zz", "</S>")


def test_a_given_vocabulary_is_used_as_it_is_however_large() -> None:
    words = ("<S>", "</S>", "<UNK>", "zebra", *(f"w{i}" for i in range(100)), "a")
    Vocabulary(words).write(Path("vocab.txt"))
    store = build(vocabulary=Path("vocab.txt"), max_words=4)
    assert store.vocabulary.words == words
    assert decoded(store)[2] == ["e", "f"]
    assert store.n_types == len(words) + 6
    assert store.counts[: store.n_words].sum() == 4


def test_a_vocabulary_whose_marks_are_not_its_first_lines_is_refused() -> None:
    """It once trained a wrong model in silence: ids 0, 1 and 2 were taken for the marks."""
    Path("vocab.txt").write_text("</S>\n<S>\n<UNK>\na\n")
    with pytest.raises(DataError, match="begins with </S>, <S>, <UNK>, expected <S>, </S>, <UNK>"):
        build(vocabulary=Path("vocab.txt"))


def test_a_vocabulary_without_its_marks_is_refused() -> None:
    Path("vocab.txt").write_text("<S>\n<unk>\na\n")
    with pytest.raises(
        DataError, match=r"vocab\.txt: 2 problems\n  - the mark </S> is .*\n  - the mark <UNK>"
    ) as error:
        build(vocabulary=Path("vocab.txt"))
    assert "<unk>" in error.value.hint
    with pytest.raises(DataError, match="no such vocabulary file"):
        build(vocabulary=Path("missing.txt"))


def test_rare_words_are_forgotten_only_where_there_is_no_room() -> None:
    types = TypeTable(Path("words"), max_words=4)
    types.add(["a", "b", "c"], np.array([5, 4, 1]))
    assert types.n_forgotten == 0
    types.add(["d", "e"], np.array([1, 2]))
    assert types.n_forgotten == 3
    assert types.commonest(9) == [("a", 5), ("b", 4)]
    assert types.add(["a", "c"], np.array([1, 1])).tolist() == [0, 5]
    assert list(types.words()) == ["a", "b", "c", "d", "e", "c"]


def test_a_word_that_was_forgotten_still_gets_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the vocabulary for its later occurrences: its first ones are predicted as itself, too."""
    text = "".join(f"w{i} a a\n" for i in range(60)) + "w0 w0 w0\n"
    monkeypatch.setattr(store_writing, "TypeTable", partial(TypeTable, max_words=10))
    monkeypatch.setattr(store_writing, "blocks", partial(corpus.blocks, size=16))
    store = build(text, max_words=5)
    assert store.info.n_forgotten > 0
    assert store.vocabulary.words[3:] == ("a", "w0")
    assert decoded(store) == [line.split() for line in text.splitlines()]
    assert store.ids[0] == store.ids[-1] == 4


@pytest.mark.parametrize(
    ("settings", "size"), [({"workers": 2}, 64), ({"workers": 1}, 64), ({"workers": 0}, 64), ({"workers": 1}, 5_000)]
)
def test_neither_workers_nor_blocks_change_a_byte(
    settings: dict[str, int], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"Mr. Smith met {i * i % 97} of them. They left!\n" + "\n" * (i % 3 == 0) for i in range(60))
    config = TextConfig(split_sentences=True)
    whole = build(text, text=config, min_count=2)
    monkeypatch.setattr(store_writing, "blocks", partial(corpus.blocks, size=size))
    store = build(text, where="other", text=config, min_count=2, **settings)
    assert (store.fingerprint, store.n_sentences, store.n_documents) == (whole.fingerprint, 120, 21)


def test_one_line_of_five_megabytes() -> None:
    Path("a.txt").write_text("river bank " * 500_000)
    store = build()
    assert store.n_tokens == 1_000_000
    assert store.counts[3:].tolist() == [500_000, 500_000]
    assert max(np.diff(store.sentence_starts)) < 200_000


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_an_empty_corpus_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"the corpus is empty: no word in a\.txt"):
        build(text)
    assert [path.name for path in Path().iterdir()] == ["a.txt"]


# Views


def test_the_row_length_that_fits() -> None:
    store = build("a " * 999 + "x" * 30 + "\n")
    assert store.fitting_token_length(0.999) == 10
    assert store.fitting_token_length(0.9995) == 32
    assert build("ü" * 2000 + "\n").fitting_token_length() == 512


def test_the_last_documents_are_kept_apart() -> None:
    store = build("".join(f"{i}\n{i}\n\n" for i in range(10)))
    assert store.tail_split(0.2) == 16
    assert store.tail_split(0.05) == 19, "less than a document: sentences"
    assert store.tail_split(0) == 20
    assert build("a\nb\nc\nd\n").tail_split(0.25) == 3
    with pytest.raises(DataError, match="one sentence"):
        build("a\n").tail_split(0.01)


def test_a_slice_is_a_store() -> None:
    store = build("a b\nc\n\nd e f\n\na\n")
    part = store.slice(1, 3)
    assert decoded(part) == [["c"], ["d", "e", "f"]]
    assert part.document_starts.tolist() == [0, 1]
    assert (part.n_tokens, part.n_sentences, part.n_documents, part.n_types) == (4, 2, 2, store.n_types)
    assert part.counts.sum() == 4
    assert part.vocabulary is store.vocabulary
    assert decoded(part.slice(1, 2)) == [["d", "e", "f"]]
    assert decoded(store.slice(0, 4)) == decoded(store)
    assert store.slice(2, 2).n_documents == 0
    assert len({store.fingerprint, part.fingerprint, store.slice(1, 4).fingerprint}) == 3


def test_progress_is_told() -> None:
    told: list[tuple[int, float]] = []
    build(progress=lambda n_tokens, share: told.append((n_tokens, share)))
    assert told == [(11, 1.0)]


# Again


def test_a_store_of_the_same_text_is_used_again() -> None:
    first = build()
    again = build()
    assert not first.reused
    assert again.reused
    assert again.fingerprint == first.fingerprint
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "store"]


def test_a_store_of_another_text_is_built_again() -> None:
    build()
    store = build("new words\n")
    assert not store.reused
    assert store.n_tokens == 2
    assert not build(max_words=4).reused
    assert not build(max_words=4, text=TextConfig()).reused


def test_a_changed_file_is_named_where_nothing_may_change() -> None:
    build()
    with pytest.raises(DataError, match=r"store: made of another corpus: a\.txt changed: it had 29 bytes, it has 10"):
        build("new words\n", rebuild=False)
    with pytest.raises(DataError, match=r"2 problems\n  - vocabulary\.max_words was 100000, is 9\n  - a\.txt changed"):
        build(max_words=9, rebuild=False)


def test_nothing_but_a_store_is_ever_replaced() -> None:
    Path("store").mkdir()
    build()
    Path("notes").mkdir()
    Path("notes/a.md").write_text("mine")
    with pytest.raises(DataError, match="notes: exists, and is not a token store"):
        build(where="notes")
    with pytest.raises(DataError, match=r"a\.txt: exists"):
        build(where="a.txt")
    assert Path("notes/a.md").read_text() == "mine"


# Damage


def damage(name: str, kind: str) -> None:
    path = Path("store", name)
    content = path.read_bytes()
    match kind:
        case "cut":
            path.write_bytes(content[:-1])
        case "changed":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "missing":
            path.unlink()


@pytest.mark.parametrize("kind", ["cut", "changed", "missing"])
@pytest.mark.parametrize("name", ["ids.bin", "sentences.bin", "documents.bin", "counts.bin", "vocab.txt", "others.txt"])
def test_a_damaged_store_is_refused_and_built_again(name: str, kind: str) -> None:
    build(min_count=2)
    damage(name, kind)
    with pytest.raises(DataError, match=rf"store: damaged: {name} ") as error:
        TokenStore.open(Path("store"))
    assert "built again" in error.value.hint
    with pytest.raises(DataError, match="damaged"):
        build(min_count=2, rebuild=False)
    assert not build(min_count=2).reused
    assert TokenStore.open(Path("store")).n_tokens == 11


def test_all_damage_is_named_at_once() -> None:
    build()
    damage("ids.bin", "cut")
    damage("vocab.txt", "missing")
    with pytest.raises(DataError, match=r"2 problems(.|\n)*vocab\.txt is missing(.|\n)*ids\.bin has"):
        TokenStore.open(Path("store"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not the JSON that was written"),
        ("[]", "not the JSON that was written"),
        ('{"version": 99}', "a store of version 99"),
        ('{"version": 1}', "missing key 'origin'"),
    ],
)
def test_a_store_that_does_not_say_what_it_is(content: str, message: str) -> None:
    build()
    Path("store/store.json").write_text(content)
    with pytest.raises(DataError, match=message):
        TokenStore.open(Path("store"))


def test_a_folder_that_is_no_store() -> None:
    with pytest.raises(DataError, match=r"nowhere: not a token store: store\.json is missing"):
        TokenStore.open(Path("nowhere"))


def test_store_json_says_where_it_all_came_from() -> None:
    build()
    info = json.loads(Path("store/store.json").read_text())
    assert info["origin"]["inputs"][0]["name"] == "a.txt"
    assert info["origin"]["text"]["tokenizer"] == "whitespace"
    assert {file["name"] for file in info["files"]} == {path.name for path in Path("store").iterdir()} - {"store.json"}


def test_fitting_bytes_is_exact() -> None:
    lengths, counts = np.array([1, 5, 9]), np.array([90, 9, 1])
    found = [vocabulary_builder.fitting_bytes(lengths, counts, share) for share in (0.5, 0.9, 0.91, 0.99, 1.0)]
    assert found == [1, 1, 5, 5, 9]


def test_preparing_a_corpus_does_not_import_torch() -> None:
    """Each worker process would import it, too."""
    code = "import sys, elmokit.pretraining.store, elmokit.pretraining.inspect\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
