import dataclasses

from answer_samples import count_words, passage
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster.answer.assemble import assemble, is_duplicate, weakest_in_the_middle

LONG = "Alpha beta gamma delta epsilon zeta eta theta iota kappa."  # 10 words, 8 shingles


def run(passages, budget=1000, most=8, threshold=0.9):
    return assemble(
        passages,
        budget_tokens=budget,
        count_tokens=count_words,
        max_passages=most,
        duplicate_threshold=threshold,
    )


def different(count):
    return [
        passage(f"Topic{i} says thing{i} about word{i}.", doc=f"d{i}", rank=i + 1)
        for i in range(count)
    ]


def test_best_first_and_second_last_and_weakest_in_the_middle():
    assert weakest_in_the_middle([1, 2, 3, 4, 5]) == [1, 3, 5, 4, 2]
    result = run(different(5))
    assert [source.doc_id for source in result.sources] == ["d0", "d2", "d4", "d3", "d1"]
    assert [source.marker for source in result.sources] == [1, 2, 3, 4, 5]
    assert [source.doc_id for source in result.by_strength()] == ["d0", "d1", "d2", "d3", "d4"]


def test_a_rendered_source_has_marker_title_section_file_and_page():
    source = run([passage("It lasts.", section="Power > Battery", page=3)]).sources[0]
    assert source.render() == "[1] Manual > Power > Battery (doc.pdf, page 3)\nIt lasts."


def test_tokens_count_markers_and_source_lines():
    # "[1] Manual (d0.pdf, page 1)" is 5 words, the text 5
    assert run(different(1)).tokens == 10
    assert run(different(1), budget=9).sources == ()
    assert run(different(1), budget=9).over_budget == 1


def test_near_duplicates_are_dropped_by_trigrams():
    # one word of ten differs, at the end: 7 of 9 trigrams are shared
    other = passage(LONG.replace("kappa", "lambda"), doc="other", rank=2)
    assert not is_duplicate(other, passage(LONG), 0.8)
    assert is_duplicate(other, passage(LONG), 7 / 9)
    assert run([passage(LONG), passage(LONG, doc="copy", rank=2)]).duplicates == 1


def test_short_texts_are_compared_by_words():
    left, right = passage("The battery lasts long."), passage("Battery lasts long.", doc="b")
    assert is_duplicate(right, left, 0.75)  # 3 of 4 words
    assert not is_duplicate(right, left, 0.76)


def test_the_same_words_with_other_numbers_are_no_duplicate():
    text = " ".join(f"word{'abcdefghijklmnopqrstuvwxyz'[i % 26] * 2}" for i in range(60))
    left = passage(f"{text} in 2022")
    right = passage(f"{text} in 2023", doc="next")
    assert not is_duplicate(right, left, 0.9)


def test_cjk_duplicates():
    text = "电池充满电后可以使用十小时"
    assert is_duplicate(passage(text, doc="b"), passage(text + "。"), 0.9)
    assert not is_duplicate(passage("充电大约需要两小时左右哦", doc="b"), passage(text), 0.5)


def test_overlapping_and_adjoining_passages_become_one_source_in_document_order():
    document = "One one. Two two. Three three.\n\nFour four."
    parts = [
        passage(document[9:30], start=9, rank=1, page=2),
        passage(document[0:17], start=0, rank=2, page=1),
        passage(document[32:], start=32, rank=3, page=3),
    ]
    result = run(parts)
    [source] = result.sources
    assert source.text == document
    assert (source.start, source.end, source.pages) == (0, len(document), (1, 3))
    assert result.used == 3
    assert source.part_at(0, 8).rank == 2
    assert source.part_at(9, 17).rank == 1  # both hold it: the better one


def test_a_gap_that_hides_text_is_not_joined():
    assert len(run([passage("One.", start=0), passage("Two.", start=7, rank=2)]).sources) == 2


def test_a_piece_of_a_table_is_joined_only_where_its_header_is_shown():
    header = "| a | b |\n|---|---|\n"
    first = passage(f"{header}| 1 | 2 |\n")
    second = passage("| 3 | 4 |", start=first.end, header=header, rank=2)
    assert len(run([first, second]).sources) == 1
    alone = passage("Some prose before.", start=0)
    stranger = passage("| 3 | 4 |", start=alone.end, header=header, rank=2)
    assert len(run([alone, stranger]).sources) == 2


def test_a_passage_is_cut_at_a_sentence_and_the_rest_is_counted():
    text = "One two three. Four five six. Seven eight nine."
    result = run([passage(text)], budget=12)  # 5 words of label, 6 of two sentences
    assert result.sources[0].text == "One two three. Four five six."
    assert (result.sentences_cut, result.over_budget, result.tokens) == (1, 0, 11)


def test_a_table_is_cut_between_rows():
    result = run([passage("| a | b |\n| c | d |\n| e | f |")], budget=16)
    assert result.sources[0].text == "| a | b |\n| c | d |"
    assert result.sentences_cut == 1


def test_a_section_is_cut_around_the_fragment_it_surrounds():
    section = "A one. B two. C three. D four. E five."
    fragment = passage("C three.", start=14, rank=1, chunk="fragment")
    parent = passage(section, start=0, rank=2, chunk="parent")
    # 5 words of label; C, then B and D that are equally near, B first
    result = run([fragment, parent], budget=9)
    assert [source.text for source in result.sources] == ["B two. C three."]
    assert result.sentences_cut == 3


def test_at_most_so_many_sources_but_neighbours_still_join():
    first, second = passage("One one."), passage("Two two.", doc="b", rank=2)
    neighbour = passage("More.", start=first.end + 1, rank=3)
    result = run([first, second, neighbour], most=1)
    assert [source.text for source in result.sources] == ["One one. More."]
    assert result.over_count == 1


def test_the_same_chunk_twice_is_a_duplicate():
    one = passage("One one.", chunk="same")
    assert run([one, dataclasses.replace(one, rank=2)]).duplicates == 1


def test_no_passages():
    assert run([]).sources == ()
    assert run([]).tokens == 0


WORDS = st.lists(
    st.sampled_from(["red", "blue", "green.", "dog.", "cat?", "moon\n", "7", "8"]), min_size=1
)
SPANS = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 150), st.integers(1, 60)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(WORDS, SPANS, st.integers(5, 60), st.integers(1, 12), st.sampled_from([0.5, 0.9, 1.0]))
def test_assembly_keeps_its_promises(found, spans, budget, most, threshold):
    document = (" ".join(found) * 40)[:250]
    passages = [
        passage(document[start : start + length], doc=doc, start=start, rank=rank)
        for rank, (doc, start, length) in enumerate(spans, start=1)
        if document[start : start + length].strip()
    ]

    def count_characters(texts):
        return [len(text) // 4 + 1 for text in texts]

    result = assemble(
        passages,
        budget_tokens=budget,
        count_tokens=count_characters,
        max_passages=most,
        duplicate_threshold=threshold,
    )
    sources = result.sources
    assert result.tokens == sum(count_characters([s.render() for s in sources])) <= budget
    assert [source.marker for source in sources] == list(range(1, len(sources) + 1))
    assert len(sources) <= most
    left_out = result.duplicates + result.over_budget + result.over_count
    assert result.used + left_out == len(passages)
    ranked = result.by_strength()
    if len(ranked) > 1:
        assert (sources[0], sources[-1]) == (ranked[0], ranked[1])
    for source in sources:
        covered = {i for part in source.parts for i in range(part.start, part.end)}
        expected = [document[i] if i in covered else " " for i in range(source.start, source.end)]
        assert source.text.split() == "".join(expected).split()
        assert len(source.text) == source.end - source.start
    again = assemble(
        passages,
        budget_tokens=budget,
        count_tokens=count_characters,
        max_passages=most,
        duplicate_threshold=threshold,
    )
    assert again == result
