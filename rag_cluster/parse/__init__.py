"""FILE -> DOCUMENT: one text per file with spans for pages, sections and tables."""
