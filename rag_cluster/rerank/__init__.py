"""HITS -> HITS: candidates in a better order."""
