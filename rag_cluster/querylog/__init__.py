"""The query log of a service: reading it, selecting from it, and what can be made of it.

A folder holds `queries-REPLICA.NUMBER.jsonl` of every replica that wrote there (`serve.querylog`),
each a JSON object a line.
"""

from rag_cluster.querylog.reading import Log, files_of, normal
from rag_cluster.querylog.selection import Selection

__all__ = ["Log", "Selection", "files_of", "normal"]
