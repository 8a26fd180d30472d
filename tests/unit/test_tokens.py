"""Tokenizers by name, a user's callable as one, and where its tokens stand."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import DataError, SettingsError
from elmokit.text.tokens import TOKENIZERS, Tokens, tokenizer

ANY_TEXT = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_each_tokenizer_of_the_table_gives_slices_of_any_text(name: str) -> None:
    tokenize = tokenizer(name)

    @given(ANY_TEXT)
    def check(text: str) -> None:
        found = tokenize(text)
        position = 0
        for token, offset in zip(found.tokens, found.offsets, strict=True):
            assert offset is not None
            assert position <= offset[0] < offset[1]
            assert text[offset[0] : offset[1]] == token
            position = offset[1]

    check()


@pytest.mark.parametrize("name", TOKENIZERS)
def test_each_tokenizer_of_the_table_takes_an_empty_text_and_can_be_pickled(name: str) -> None:
    tokenize = pickle.loads(pickle.dumps(tokenizer(name, "de")))
    assert tokenize("") == Tokens((), ())
    assert len(tokenize(" \n")) == 0


@given(ANY_TEXT)
def test_whitespace_is_str_split(text: str) -> None:
    assert list(tokenizer("whitespace")(text).tokens) == text.split()


@given(ANY_TEXT)
def test_characters_are_all_but_whitespace(text: str) -> None:
    assert "".join(tokenizer("characters")(text).tokens) == "".join(text.split())


def test_characters_reads_a_protein() -> None:
    assert tokenizer("characters")("MKV\nLA") == Tokens(
        ("M", "K", "V", "L", "A"), ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6))
    )


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(SettingsError) as caught:
        tokenizer("mosses")
    assert str(caught.value).splitlines() == [
        "unknown tokenizer 'mosses'",
        "  hint: did you mean 'moses'? known: moses, whitespace, characters, or any callable",
    ]
    with pytest.raises(SettingsError, match="known: moses"):
        tokenizer("zzz")


def test_a_callable_is_wrapped_and_its_tokens_are_found_in_the_text() -> None:
    def cut(text: str) -> list[str]:
        return ["New York", "is", "big", "!"]

    assert tokenizer(cut)("New York is  big!").offsets == ((0, 8), (9, 11), (13, 16), (16, 17))


def test_a_rewritten_token_has_no_offset_and_does_not_swallow_the_text() -> None:
    """ "the", written "The" in the text, is not the "the" six words later."""
    found = tokenizer(lambda text: text.lower().split())("The dog saw a cat and the bird")
    assert found.offsets[0] is None
    assert found.offsets[1:] == ((4, 7), (8, 11), (12, 13), (14, 17), (18, 21), (22, 25), (26, 30))


def test_quotes_rewritten_in_the_manner_of_ptb_have_no_offset() -> None:
    found = tokenizer(lambda text: ["``", "Hi", "''", ",", "he", "said"])('"Hi", he said')
    assert found.offsets == (None, (1, 3), None, (4, 5), (6, 8), (9, 13))


def test_text_that_the_callable_leaves_out_is_stepped_over() -> None:
    assert tokenizer(lambda text: ["word", "a"])("<a>word a").offsets == ((3, 7), (8, 9))
    long = "x y " * 5000 + "a b " * 100
    offsets = tokenizer(lambda text: ["a", "b"] * 100)(long).offsets
    assert offsets[-1] is not None and offsets[0] is None


def test_tokens_may_carry_the_space_before_them() -> None:
    assert tokenizer(lambda text: ["The", " cat", "  sat"])("The cat  sat").offsets == ((0, 3), (3, 7), (7, 12))


def test_empty_tokens_have_no_offset() -> None:
    assert tokenizer(lambda text: ["", "a", ""])("a").offsets == (None, (0, 1), None)


def test_a_callable_may_return_tokens_and_offsets() -> None:
    given_back = Tokens(("x",), ((0, 1),))
    assert tokenizer(lambda text: given_back)("ab") is given_back


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: None, "returned None"),
        (lambda text: text, "returned a str"),
        (lambda text: [1], "returned a int as token 0"),
        (lambda text: Tokens(("a", "b"), (None,)), "2 tokens but 1 offsets"),
        (lambda text: Tokens(("a",), ((3, 9),)), r"the offset \(3, 9\) in a text of 4 characters"),
    ],
)
def test_a_callable_that_returns_something_else_is_told_so(function: Callable[[str], object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        tokenizer(function)("text")
    assert "lambda" in str(caught.value) and "list of str" in caught.value.hint


@given(st.lists(st.text(st.characters(), max_size=5)), ANY_TEXT)
def test_offsets_of_any_tokens_in_any_text_are_slices_and_ascend(tokens: list[str], text: str) -> None:
    found = tokenizer(lambda text: tokens)(text)
    position = 0
    for token, offset in zip(found.tokens, found.offsets, strict=True):
        if offset is not None:
            assert text[offset[0] : offset[1]] == token and position <= offset[0]
            position = offset[1]


def test_tokens_that_are_nowhere_in_a_long_text_take_no_quadratic_time() -> None:
    assert set(tokenizer(lambda text: ["#"] * 50_000)("The cat " * 50_000).offsets) == {None}
