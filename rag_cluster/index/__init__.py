"""VECTOR -> INDEX: dense and lexical shards, and one filter language for both."""
