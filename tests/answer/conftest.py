import pytest

from rag_cluster.config import Embed
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.threads import AsyncEncoderThread


@pytest.fixture(scope="session")
def packaged_encoder():
    with AsyncEncoderThread(load_encoder(Embed(device="cpu", dtype="float32"))) as encoder:
        yield encoder
