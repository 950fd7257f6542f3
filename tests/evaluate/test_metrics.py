from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.metrics import Measures, mean


def values(names, qrels, rankings):
    return Measures(names).per_query(qrels, rankings)


def test_values_computed_by_hand():
    qrels = {"q": {("d", 1): 3, ("d", 2): 1, ("e", None): 2, ("f", None): 0}}
    rankings = {"q": [("f", None), ("d", 2), ("x", None), ("d", 1)]}
    found = values(
        "nDCG@3 nDCG@10 R@2 R@10 RR@10 Success@1 Success@2 AP P(rel=2)@4", qrels, rankings
    )
    ideal = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)  # the gain is the relevance itself
    assert {name: value["q"] for name, value in found.items()} == pytest.approx(
        {
            "nDCG@3": (1 / log2(3)) / ideal,
            "nDCG@10": (1 / log2(3) + 3 / log2(5)) / ideal,
            "R@2": 1 / 3,
            "R@10": 2 / 3,
            "RR@10": 1 / 2,
            "Success@1": 0.0,
            "Success@2": 1.0,
            "AP": (1 / 2 + 2 / 4) / 3,
            "P(rel=2)@4": 1 / 4,
        }
    )


def test_names_stay_as_given_and_in_order():
    measures = Measures(" R@5  nDCG@10 R@5 P(rel=2)@3 ")
    assert measures.names == ["R@5", "nDCG@10", "P(rel=2)@3"]
    assert list(measures.per_query({"q": {"a": 1}}, {})) == measures.names


def test_a_query_that_found_nothing_counts_as_zero():
    found = values("R@10 RR@10", {"a": {"x": 1}, "b": {"x": 1}}, {"a": ["x"], "b": []})
    assert found == {"R@10": {"a": 1.0, "b": 0.0}, "RR@10": {"a": 1.0, "b": 0.0}}
    assert mean(found["R@10"]) == 0.5


def test_depth_is_the_largest_cutoff():
    assert Measures("nDCG@10 R@100 RR@20").depth == 100
    assert Measures("nDCG@10 AP").depth == 1000


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("nDCG@10 Foo@3", "'Foo@3' is not a measure .*measure not found: Foo"),
        ("nDCG@ten", "'nDCG@ten' is not a measure"),
        ("nDCG@", "'nDCG@' is not a measure"),
        ("R", "cannot compute"),
        ("alpha_nDCG@10", "cannot compute"),
        ("  ", "no measures are named"),
    ],
)
def test_measures_that_cannot_be_had(names, message):
    with pytest.raises(DatasetError, match=message):
        Measures(names)


@given(
    st.lists(st.integers(0, 20), unique=True, min_size=1, max_size=12),
    st.dictionaries(st.integers(0, 20), st.integers(1, 3), min_size=1, max_size=6),
)
def test_recall_is_what_it_says(ranking, relevance):
    found = values("R@5 Success@5", {"q": relevance}, {"q": ranking})
    hits = len(set(ranking[:5]) & set(relevance))
    assert found["R@5"]["q"] == pytest.approx(hits / len(relevance))
    assert found["Success@5"]["q"] == float(hits > 0)
