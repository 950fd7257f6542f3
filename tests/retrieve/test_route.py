import pytest

from rag_cluster.retrieve.route import kind_of_query, route


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ('who said "to be or not to be" first', "quoted"),
        ("wer sagte “Sein oder Nichtsein”", "quoted"),
        ("what does max_failed_fraction do", "code"),
        ("where is the DiffExecutor struct defined", "code"),
        ("how is getText used", "code"),
        ("meaning of std::mem in the allocator", "code"),
        ("call to parse(x) fails at once", "code"),
        ("what does --dry-run change in a release", "code"),
        ("requirements of ISO-9001 for suppliers", "code"),
        ("fields of config.yaml for the server", "code"),
        ("quick ratio", "short"),
        ("3M revenue 2018", "short"),
        ("净利润", "short"),
        ("Did wages increase in 2023?", "plain"),
        ("What's the company's policy on returns?", "plain"),
        ("The well-known state-of-the-art U.S. policy on trade", "plain"),
        ("四半期の売上高はいくらでしたか教えて", "plain"),
        (
            "Which of the segments has dragged down the overall growth of sales in the last year",
            "long",
        ),
    ],
)
def test_kind_of_query(query, kind):
    assert kind_of_query(query) == kind


def test_the_weight_of_dense_follows_the_kind():
    assert route("Did wages increase in 2023?", alpha=0.5) == 0.5
    for query in ('the words "to be or not"', "snake_case names", "quick ratio"):
        assert route(query, alpha=0.5) < 0.5
    assert route(" ".join(["word"] * 20), alpha=0.5) > 0.5


@pytest.mark.parametrize(("words", "dense"), [(15, 0.7), (20, 0.8), (25, 0.9), (60, 0.9)])
def test_a_long_query_leans_on_dense_the_more_the_longer_it_is(words, dense):
    assert route(" ".join(["word"] * words), alpha=0.6) == pytest.approx(dense)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_weight_stays_between_zero_and_one(alpha):
    for query in ('"quoted words"', "short", " ".join(["word"] * 20)):
        assert 0 <= route(query, alpha) <= 1
