"""HITS -> ANSWER: assembly, generation, checked citations, and THE query path."""
