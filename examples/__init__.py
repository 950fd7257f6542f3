"""A small corpus of the project's own, with questions, and the demonstration."""
