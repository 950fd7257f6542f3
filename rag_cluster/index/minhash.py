"""MinHash signatures of texts, and the bands by which texts with like signatures are found.

Two signatures agree in each place with a probability equal to the Jaccard similarity of the
texts' shingles (Broder, "On the resemblance and containment of documents", 1997). Cut into bands
of `rows` places, two texts of similarity s share at least one band with probability
1 - (1 - s^rows)^bands (Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", ch. 3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Duplicates, fingerprint
from rag_cluster.shingles import units

Signatures = NDArray[np.uint32]
CERTAIN = 0.999  # a pair right at the threshold shares a band with at least this probability
_AT_ONCE = 10_000  # shingles that are permuted at once: 5 MB with 128 permutations
_ODD = np.uint64(0x9E3779B97F4A7C15)


def fingerprint_of(config: Duplicates) -> str:
    """Names the settings that make a text's signature."""
    settings = (config.shingle, config.permutations, config.min_words, config.seed)
    return fingerprint("affine32", *(str(value) for value in settings))


def signatures(texts: Sequence[str], config: Duplicates) -> tuple[Signatures, NDArray[np.bool_]]:
    """uint32 [texts, permutations], and whether each text is long enough to have one.

    The signature of a text under `min_words` (or one shingle) is zeros.
    """
    from datasketch import MinHash

    sketch = MinHash(
        num_perm=config.permutations, seed=config.seed, hashfunc=int, scheme="affine32"
    )
    made = np.zeros((len(texts), config.permutations), np.uint32)
    signed = np.zeros(len(texts), bool)
    for row, text in enumerate(texts):
        found = units(text)
        if len(found) < max(config.min_words, config.shingle):
            continue
        sketch.clear()
        hashes = shingle_hashes(found, config.shingle).tolist()
        for start in range(0, len(hashes), _AT_ONCE):
            sketch.update_batch(hashes[start : start + _AT_ONCE])
        made[row] = sketch.hashvalues
        signed[row] = True
    return made, signed


def shingle_hashes(found: Sequence[str], size: int) -> NDArray[np.uint32]:
    """The distinct hashes of the n-grams of units: a polynomial of the units' own hashes."""
    hashes = np.fromiter(map(_unit_hash, found), np.uint64, len(found))
    count = len(found) - size + 1
    mixed = np.zeros(count, np.uint64)
    for place in range(size):
        mixed = mixed * _ODD + hashes[place : place + count]
    mixed ^= mixed >> np.uint64(32)
    return np.unique((mixed * _ODD) >> np.uint64(32)).astype(np.uint32)


@lru_cache(maxsize=1 << 18)
def _unit_hash(unit: str) -> int:
    data = unit.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """The probability that two texts of this similarity share a band."""
    return float(1 - (1 - similarity**rows) ** bands)


def rows_of_a_band(threshold: float, permutations: int) -> int:
    """The most rows with which a pair at the threshold shares a band with probability CERTAIN.

    More rows make fewer candidates. Candidates are compared, so one too many costs only time.
    """
    for rows in range(permutations, 1, -1):
        if candidate_probability(threshold, permutations // rows, rows) >= CERTAIN:
            return rows
    return 1


def band_hashes(made: Signatures, rows: int) -> NDArray[np.uint64]:
    """A hash of each band of signatures: uint64 [texts, bands]."""
    texts, permutations = made.shape
    bands = permutations // rows
    factors = np.random.default_rng(0).integers(0, 1 << 63, rows, np.uint64) * np.uint64(2)
    factors += np.uint64(1)
    cut = made[:, : bands * rows].reshape(texts, bands, rows)
    found = np.zeros((texts, bands), np.uint64)
    for row in range(rows):
        found += cut[:, :, row] * factors[row]
    return found
