"""Retrieval-augmented generation as a batch pipeline and a query service on a Ray cluster."""
