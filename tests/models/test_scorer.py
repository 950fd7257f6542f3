import numpy as np
import pytest
import tiny_models

from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.models.scorer import LateInteractionScorer, load_cross_encoder, max_sim


def test_max_sim_is_the_sum_of_each_query_tokens_best_cosine():
    query = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    passage = np.array([[0, 1], [0.8, 0.6]], dtype=np.float32)
    # first token: max(0, .8); second: max(.8, .48 + .48)
    assert max_sim(query, passage) == pytest.approx(0.8 + 0.96)


def test_max_sim_of_no_tokens_is_zero():
    assert max_sim(np.zeros((0, 2), np.float32), np.ones((1, 2), np.float32)) == 0.0


def test_late_interaction_of_words_that_all_match_is_their_number():
    scorer = LateInteractionScorer(FakeEncoder(64))
    scores = scorer.score("cat sat", ["the cat sat down", "the cat", "nothing"])
    assert scores[0] == pytest.approx(2.0, abs=1e-5)
    assert scores[0] > scores[1] > scores[2]


def test_cross_encoder_scores_do_not_depend_on_order_or_batch(tmp_path):
    model = tiny_models.save_cross_encoder(tmp_path)
    texts = ["the cat sat", "a dog ran on the red mat", "money", "the river bank is blue"]
    scores = load_cross_encoder(model, batch_size=2).score("what cat", texts)
    one_by_one = load_cross_encoder(model, batch_size=1)
    expected = [one_by_one.score("what cat", [text])[0] for text in texts]
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_classifier_of_several_labels_is_no_reranker(tmp_path):
    with pytest.raises(ModelError, match="3 scores per pair"):
        load_cross_encoder(tiny_models.save_cross_encoder(tmp_path, labels=3))
