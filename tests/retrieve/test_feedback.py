import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.index.analyzer import load_analyzer
from rag_cluster.retrieve.feedback import expansion, interpolated, relevance_model


def test_a_terms_probability_is_its_share_of_each_document_weighted_by_the_scores():
    model = relevance_model([["a", "b", "b", "c"], ["a", "d"]], [3.0, 1.0])
    # P(d1) = 3/4, P(d2) = 1/4
    assert model == pytest.approx(
        {"b": 0.75 * 2 / 4, "a": 0.75 * 1 / 4 + 0.25 * 1 / 2, "c": 0.75 / 4, "d": 0.25 / 2}
    )
    assert list(model) == ["b", "a", "c", "d"]


def test_ties_are_ordered_by_the_term_and_documents_without_terms_count_for_nothing():
    assert list(relevance_model([["b", "a"], []], [1.0, 9.0])) == ["a", "b"]
    assert sum(relevance_model([["b", "a"], []], [1.0, 9.0]).values()) == pytest.approx(1)


def test_scores_of_zero_or_below_make_all_documents_alike():
    assert relevance_model([["a"], ["b"]], [0.0, -1.0]) == {"a": 0.5, "b": 0.5}


def test_nothing_found_gives_no_words():
    assert relevance_model([], []) == {}
    assert expansion([], [], 5, str.split) == {}


def test_the_expansion_is_the_most_probable_terms_adding_up_to_one():
    added = expansion(["aa bb bb cc", "aa dd"], [3.0, 1.0], 2, str.split)
    # .375 and .3125 of the model, normalised
    assert added == pytest.approx({"bb": 0.375 / 0.6875, "aa": 0.3125 / 0.6875})


def test_single_letters_and_digits_are_left_out_and_characters_are_not():
    added = expansion(["5 a 水 copper 12"], [1.0], 9, str.split)
    assert added == pytest.approx({"水": 1 / 3, "copper": 1 / 3, "12": 1 / 3})


def test_terms_are_told_as_words_that_give_them():
    terms_of = load_analyzer("english").tokens
    added = expansion(["heating heated heating pumps", "parseHTMLPage"], [2.0, 1.0], 9, terms_of)
    assert "heating" in added
    assert "pumps" in added
    # "html" stands in no word alone, but is its own word; whatever is told gives one term
    assert all(len(terms_of(word)) == 1 for word in added)
    assert sum(added.values()) == pytest.approx(1)


def test_rm3_is_the_query_and_the_expansion_by_their_shares():
    words = interpolated("heat pump", {"copper": 0.75, "pipe": 0.25}, 0.6, str.split)
    # two terms of the query share .6; the added ones .4
    assert words == pytest.approx({"heat pump": 0.3, "copper": 0.3, "pipe": 0.1})


def test_a_word_that_is_the_query_adds_to_it():
    assert interpolated("copper", {"copper": 1.0}, 0.5, str.split) == pytest.approx({"copper": 1.0})


def test_without_added_words_the_query_has_all_the_weight():
    assert interpolated("heat pump", {}, 0.3, str.split) == {"heat pump": 0.5}


def test_a_query_of_stop_words_alone_is_no_division_by_zero():
    assert interpolated("of the", {"a": 1.0}, 0.5, lambda _: []) == {"of the": 0.5, "a": 0.5}


@given(
    st.lists(st.lists(st.sampled_from(["aa", "b", "cc", "dd"]), max_size=8), max_size=6),
    st.floats(0, 1),
    st.integers(1, 8),
)
def test_rm3_weights_add_up_to_one_over_the_terms(documents, original, most):
    texts = [" ".join(document) for document in documents]
    added = expansion(texts, [1.0] * len(texts), most, str.split)
    words = interpolated("x y x", added, original, str.split)
    total = sum(weight * len(text.split()) for text, weight in words.items())
    assert total == pytest.approx(1)
    assert len(added) <= most
