"""Training windows: every token is read and predicted once an epoch, in both directions, wherever the reader starts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from elmokit.model.config import BiLMConfig
from elmokit.pretraining.batches import BEGIN, END, UNKNOWN, Batches, Position
from elmokit.pretraining.store import TokenStore, build_store
from elmokit.text.config import TextConfig

TEXT = "a b c d e\nb c\n\nc c c a\nq z\na\n" * 6


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    (tmp_path / "text.txt").write_text(TEXT + "once\n")
    return build_store(
        [str(tmp_path / "text.txt")], tmp_path / "store", text=TextConfig(tokenizer="whitespace"), workers=1
    )


def batches(store: TokenStore, **changes: object) -> Batches:
    settings = {"rows": 4, "steps": 5, "block_tokens": 1 << 20, "seed": 0} | changes
    return Batches(store, BiLMConfig.tiny(), **settings)  # type: ignore[arg-type]


def epoch(reader: Batches, position: Position = Position()):  # noqa: B008
    for batch, ahead in reader(position):
        if ahead.epoch != position.epoch:
            return
        yield batch, ahead


def sentences_of(store: TokenStore) -> list[tuple[int, ...]]:
    known = np.where(store.ids < store.n_words, store.ids, UNKNOWN)
    return [
        tuple(known[a:b].tolist()) for a, b in zip(store.sentence_starts[:-1], store.sentence_starts[1:], strict=True)
    ]


def test_one_row_reads_every_sentence_of_the_epoch_forward_and_turned_around(store):
    predicted = [[], []]
    for batch, _ in epoch(batches(store, rows=1)):
        for found, stream in zip(predicted, batch.streams, strict=True):
            found += stream.targets[0].tolist()
    for found, end, turn in zip(predicted, (END, BEGIN), (1, -1), strict=True):
        cuts = [i for i, word in enumerate(found) if word == end]
        read = [tuple(found[a:b][::turn]) for a, b in zip([0, *(c + 1 for c in cuts)], cuts, strict=False)]
        assert sorted(read) == sorted(sentences_of(store))


def test_the_two_directions_of_a_window_cover_the_same_sentences(store):
    batch, _ = next(batches(store, rows=1, steps=1000)(Position()))
    forward, backward = (sorted(stream.index.flatten().tolist()) for stream in batch.streams)
    marks = {int(batch.streams[0].index[0, 0]), int(batch.streams[1].index[0, 0])}
    assert [i for i in forward if i not in marks] == [i for i in backward if i not in marks]


def test_what_is_read_next_is_what_was_to_be_predicted(store):
    for batch, _ in epoch(batches(store)):
        for stream, end in zip(batch.streams, (END, BEGIN), strict=True):
            begins, targets = stream.begins[:, 1:], stream.targets[:, :-1]
            assert torch.equal(begins, targets == end)


def test_a_word_outside_the_vocabulary_is_read_by_its_own_letters_and_predicted_as_unknown(store):
    assert "once" not in store.vocabulary
    rows = {
        bytes(int(x) - 1 for x in row[1:] if 0 < x < 257)
        for b, _ in epoch(batches(store))
        for row in b.table.characters
    }
    assert b"once" in rows
    assert any((stream.targets == UNKNOWN).any() for b, _ in epoch(batches(store)) for stream in b.streams)


@pytest.mark.parametrize("n_before", [0, 1, 3, 11])
def test_a_reader_goes_on_exactly_where_another_stood(store, n_before):
    settings = {"block_tokens": 25}
    whole = list(islice(batches(store, **settings)(Position()), n_before + 6))
    position = whole[n_before - 1][1] if n_before else Position()
    for (batch, _), (again, _) in zip(whole[n_before:], batches(store, **settings)(position), strict=False):
        for a, b in zip(batch.streams, again.streams, strict=True):
            assert torch.equal(batch.table.characters[a.index], again.table.characters[b.index])
            assert torch.equal(a.targets, b.targets)


def test_epochs_have_orders_of_their_own_and_a_seed_repeats_them(store):
    def targets(seed: int, number: int) -> list[int]:
        batch, _ = next(batches(store, seed=seed, steps=50)(Position(epoch=number)))
        return batch.streams[0].targets.flatten().tolist()

    assert targets(0, 0) == targets(0, 0)
    assert targets(0, 0) != targets(0, 1)
    assert targets(0, 0) != targets(1, 0)


def test_two_processes_read_the_rows_of_one_with_twice_as_many(store):
    whole, _ = next(batches(store, rows=4)(Position()))
    halves = [next(batches(store, rows=2, rank=rank, world=2)(Position()))[0] for rank in (0, 1)]
    together = torch.cat([half.streams[0].targets for half in halves])
    assert torch.equal(together, whole.streams[0].targets)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 7, 11])
def test_no_window_is_empty_also_where_the_rows_are_a_multiple_of_its_length(store, steps):
    for rows in (1, 2, 3, 4):
        assert all(batch.n_words > 0 for batch, _ in epoch(batches(store, rows=rows, steps=steps)))


def test_a_corpus_smaller_than_a_batch_still_trains(tmp_path):
    (tmp_path / "text.txt").write_text("a b\n")
    store = build_store(
        [str(tmp_path / "text.txt")], tmp_path / "s", text=TextConfig(tokenizer="whitespace"), workers=1
    )
    batch, _ = next(batches(store, rows=64)(Position()))
    assert batch.streams[0].index.shape[0] == 64
