"""Metrics, datasets and runs over the query path."""
