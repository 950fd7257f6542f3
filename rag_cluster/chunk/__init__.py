"""DOCUMENT -> CHUNK: spans of the text that are searched."""
