import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from rag_cluster.errors import ModelError
from rag_cluster.models.colbert import ColbertScorer

TEXTS = ["the cat sat on the mat .", "", "a dog", "money " * 100]


@pytest.fixture(scope="module")
def stanford(tmp_path_factory):
    return tiny_models.save_colbert(tmp_path_factory.mktemp("colbert"))


def by_hand(folder, texts):
    """ColBERT's score of the query "what cat" from the weights: markers, masks, projection."""
    import torch
    import transformers
    from safetensors.torch import load_file

    known = (*tiny_models.WORDS, "[MASK]", "[unused0]", "[unused1]", ".")
    number = {word: place for place, word in enumerate(known)}
    model = transformers.BertModel.from_pretrained(folder).eval()
    linear = load_file(f"{folder}/model.safetensors")["linear.weight"]

    def states(words, seen):
        ids = torch.tensor([[number[word] for word in words]])
        with torch.inference_mode():
            output = model(ids, attention_mask=torch.tensor([seen]))
            projected = output.last_hidden_state[0] @ linear.T
        return torch.nn.functional.normalize(projected, dim=-1).numpy()

    query = ["[CLS]", "[unused0]", "what", "cat", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    asked = states(query, [1] * 5 + [0] * 3)
    scores = []
    for text in texts:
        words = ["[CLS]", "[unused1]", *text.split()[:29], "[SEP]"]
        kept = [place for place, word in enumerate(words) if word != "."]
        passage = states(words, [1] * len(words))[kept]
        scores.append((asked @ passage.T).max(axis=1).sum())
    return scores


def test_a_checkpoint_of_stanford_scores_as_its_paper_says(stanford):
    scores = ColbertScorer(stanford, batch_size=2).score("what cat", TEXTS)
    np.testing.assert_allclose(scores, by_hand(stanford, TEXTS), atol=1e-3)


def test_what_sentence_transformers_and_pylate_saved_is_loaded_too(stanford, tmp_path):
    import sentence_transformers

    expected = ColbertScorer(stanford).score("what cat", TEXTS)
    model = sentence_transformers.MultiVectorEncoder(stanford, device="cpu")
    model.save_pretrained(str(tmp_path / "own"))
    np.testing.assert_allclose(
        ColbertScorer(str(tmp_path / "own")).score("what cat", TEXTS), expected, atol=1e-4
    )
    pylate = tmp_path / "pylate"
    shutil.copytree(tmp_path / "own", pylate)
    as_pylate_saved_it(pylate)
    np.testing.assert_allclose(
        ColbertScorer(str(pylate)).score("what cat", TEXTS), expected, atol=1e-4
    )


def as_pylate_saved_it(folder: Path) -> None:
    """Only the encoder and the projection, with what it knows of queries beside them."""
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    settings |= {
        "model_type": "ColBERT",
        "query_prefix": "[unused0] ",
        "document_prefix": "[unused1] ",
        "query_length": 8,
        "document_length": 32,
        "attend_to_expansion_tokens": False,
        "prompts": {},
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[0]["type"] = "sentence_transformers.models.Transformer"
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')


def test_another_encoder_is_refused(tmp_path):
    model = tiny_models.save_encoder(tmp_path)
    with pytest.raises(ModelError, match="not trained for late interaction"):
        ColbertScorer(model)


def test_a_broken_checkpoint_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["HF_ColBERT"]}')
    with pytest.raises(ModelError, match="is not a model for MultiVectorEncoder"):
        ColbertScorer(str(tmp_path))
