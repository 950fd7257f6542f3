"""Units and shingles of several scripts, by hand."""

from __future__ import annotations

from rag_cluster.shingles import jaccard, shingles, units


def test_jaccard_of_word_trigrams_by_hand() -> None:
    left, right = shingles("a b c d e", 3), shingles("a b c d f", 3)
    # abc bcd cde | abc bcd cdf: 2 shared of 4
    assert jaccard(left, right) == 0.5
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_shingles_count_each_cjk_character_as_a_word() -> None:
    assert shingles("电池很大", 3) == {("电", "池", "很"), ("池", "很", "大")}


def test_units_are_folded_words_numbers_and_characters_of_scripts_without_spaces() -> None:
    assert units("The R7 weighs 1,234.5 g.") == ["the", "r7", "weighs", "1,234.5", "g"]
    assert units("电池 10小时") == ["电", "池", "10", "小", "时"]
    assert units("น้ำ") == ["น", "\u0e49", "\u0e4d", "า"]  # NFKC parts the last vowel
    assert units("Straße, STRASSE") == ["strasse", "strasse"]
