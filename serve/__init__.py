"""The query service: one query path behind HTTP, on Ray Serve or in one process.

    HTTP -> api (keys, limits, shapes) -> Backend -> Retriever -> Encoder, Reranker
                                                  -> Writer (the generator)

`app.build` puts each of these into a deployment of its own; `backend.in_process` puts all into one
process; `where` says which of the two a configuration asks for. No algorithm lives here:
`rag_cluster.answer` has the path.
"""
