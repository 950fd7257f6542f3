import numpy as np
import pytest
import tiny_models

from rag_cluster.errors import ModelError
from rag_cluster.models.monot5 import MonoT5Scorer

TEXTS = ["the cat sat", "a dog ran on the red mat", "", "money " * 600]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_models.save_t5(tmp_path_factory.mktemp("t5"))


def by_hand(folder, text):
    """The logarithm of P(true) among true and false, as the paper's prompt asks for it."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    loaded = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    prompt = f"Query: what cat Document: {text} Relevant: [SEP]"
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = loaded(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    words = (*tiny_models.WORDS, "true", "false")
    true, false = (float(logits[words.index(word)]) for word in ("true", "false"))
    return true - np.logaddexp(true, false)


def test_the_score_is_the_likelihood_of_true_against_false(model):
    scores = MonoT5Scorer(model).score("what cat", TEXTS[:3])
    np.testing.assert_allclose(scores, [by_hand(model, text) for text in TEXTS[:3]], atol=1e-4)
    assert (scores <= 0).all()


def test_scores_do_not_depend_on_the_batch_and_long_passages_are_cut(model):
    together = MonoT5Scorer(model, batch_size=3).score("what cat", TEXTS)
    alone = [MonoT5Scorer(model, batch_size=1).score("what cat", [text])[0] for text in TEXTS]
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_a_t5_without_the_two_words_is_no_monot5(tmp_path):
    with pytest.raises(ModelError, match="no token for 'true'"):
        MonoT5Scorer(tiny_models.save_t5(tmp_path, more=("yes", "no")))


def test_another_model_is_refused(tmp_path):
    for number, save in enumerate((tiny_models.save_language_model, tiny_models.save_encoder)):
        with pytest.raises(ModelError, match=r"is not a T5 model: it is a (gpt2|bert)"):
            MonoT5Scorer(save(tmp_path / str(number)))
