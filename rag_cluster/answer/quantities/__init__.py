"""Numbers as texts say them, brought to one form, so that two ways of writing one number are equal.

    text -> read() -> Quantity (span, readings) -> says(passage, answer)

`numerals` reads digits, `spelled` words, `calendar` dates and times, `units` what stands beside a
number, `declared` what the header of a table says of its cells, `compare` when two agree.
"""

from rag_cluster.answer.quantities.compare import says
from rag_cluster.answer.quantities.quantity import Day, Quantity, Reading
from rag_cluster.answer.quantities.reading import read, without_numbers

__all__ = ["Day", "Quantity", "Reading", "read", "says", "without_numbers"]
