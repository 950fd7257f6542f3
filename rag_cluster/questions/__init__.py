"""Synthetic questions: what a language model asks of sampled chunks, as queries and qrels.

    frame (which chunks there are) -> draw (a stratified sample) -> questioner, checks -> output

`make_questions` is the whole way; `evaluate` reads what it writes.
"""

from rag_cluster.questions.making import make_questions
from rag_cluster.questions.state import Snapshot, Wanted

__all__ = ["Snapshot", "Wanted", "make_questions"]
