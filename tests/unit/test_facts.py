"""What a model would not see of a text."""

from __future__ import annotations

from elmokit.text.facts import TextFacts, text_facts


def test_facts_are_counted_over_tokens() -> None:
    sentences = [["a", "<S>", "x" * 49], [], ["a", "\ud800", "x" * 49, "</S>", "</s>"]]
    assert text_facts(iter(sentences)) == TextFacts(
        n_sentences=3,
        n_tokens=8,
        n_distinct=6,
        n_over_limit=2,
        n_with_unknown_bytes=1,
        n_sentence_marks=2,
        longest="x" * 49,
    )


def test_the_limit_is_in_bytes_that_are_read() -> None:
    facts = text_facts([["ü" * 24, "ü" * 25, "x" * 48 + "\ud800"]])
    assert (facts.n_over_limit, facts.n_with_unknown_bytes) == (1, 1)
    assert text_facts([["abc", "abcd"]], 5).n_over_limit == 1
    assert text_facts([["abc", "abcd"]], 5).share_over_limit == 0.5


def test_nothing_has_facts_too() -> None:
    facts = text_facts([])
    assert (facts.n_sentences, facts.n_tokens, facts.longest, facts.share_over_limit) == (0, 0, "", 0.0)


def test_the_longest_token_is_cut_for_a_message() -> None:
    assert text_facts([["b", "a" * 1_000_000]]).longest == "a" * 60
