import dataclasses

import pytest
from answer_samples import passage, source
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.citations import check_citations
from rag_cluster.answer.evidence import best_quote, support, supports
from rag_cluster.answer.extract import Pick, candidates, render
from rag_cluster.answer.sources import NOTHING_FOUND, join

BATTERY = source("The cell is flat. The battery lasts 14 hours in use. It is red.", 1, page=3)
WEIGHT = source("| Model | Weight |\n|---|---|\n| R7 | 310 g |", 2, page=5, section="Size")
SOURCES = [BATTERY, WEIGHT]


def markers(answer: str) -> list[int]:
    return [citation.marker for citation in check_citations(answer, SOURCES).citations]


def test_a_citation_has_chunk_document_page_and_a_verbatim_quote():
    [citation] = check_citations("The battery lasts 14 hours. [1]", SOURCES).citations
    assert dataclasses.asdict(citation) == {
        "marker": 1,
        "chunk_id": BATTERY.parts[0].chunk_id,
        "doc_id": "doc1",
        "uri": "file:///corpus/doc1.pdf",
        "page": 3,
        "quote": "The battery lasts 14 hours in use.",
    }


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("The battery lasts 14 hours [1].", "The battery lasts 14 hours. [1]"),
        ("The battery lasts 14 hours. [1][1]", "The battery lasts 14 hours. [1]"),
        ("[1] The battery lasts 14 hours.", "The battery lasts 14 hours. [1]"),
        ("The battery lasts 14 hours.\u30101\u3011", "The battery lasts 14 hours. [1]"),
        ("The battery lasts 14 hours. [1, 2]", "The battery lasts 14 hours. [1][2]"),
        (
            "The battery lasts 14 hours. [1] The R7 weighs 310 g. [2]",
            "The battery lasts 14 hours. [1] The R7 weighs 310 g. [2]",
        ),
    ],
)
def test_marker_syntax(answer, text):
    assert check_citations(answer, SOURCES).text == text


def test_a_marker_that_does_not_exist_is_removed_and_reported():
    checked = check_citations("The battery lasts 14 hours. [1][9] It is red [0, 9].", SOURCES)
    assert checked.text == "The battery lasts 14 hours. [1] It is red. [1]"
    assert checked.removed_markers == (9, 0)


def test_a_link_and_an_index_are_no_markers():
    checked = check_citations("See [1](http://x.org) and a[i] or `a[1]`.", SOURCES)
    assert "[1](http://x.org) and a[i] or `a[1]`" in checked.text
    assert checked.citations == ()


def test_a_sentence_without_a_marker_gets_that_of_the_passage_that_supports_it():
    checked = check_citations("Model R7: weight 310 g.", SOURCES)
    assert checked.text == "Model R7: weight 310 g. [2]"
    assert checked.citations[0].quote == "| R7 | 310 g |"
    assert checked.unsupported_sentences == ()


def test_an_unsupported_sentence_stays_and_is_reported():
    checked = check_citations("Bananas are yellow fruit. The battery lasts 14 hours.", SOURCES)
    assert checked.text == "Bananas are yellow fruit. The battery lasts 14 hours. [1]"
    assert checked.unsupported_sentences == ("Bananas are yellow fruit.",)


def test_a_marker_whose_passage_says_otherwise_is_joined_by_one_that_supports():
    checked = check_citations("The battery lasts 14 hours. [2]", SOURCES)
    assert checked.text == "The battery lasts 14 hours. [2][1]"
    wrong = check_citations("The battery lasts 15 hours. [1]", SOURCES)
    assert wrong.text == "The battery lasts 15 hours. [1]"
    assert wrong.unsupported_sentences == ("The battery lasts 15 hours.",)


def test_support_is_the_share_of_content_words_and_numbers_must_agree():
    # battery, lasts, longer, cold and 14 hours: the source has battery, lasts and 14 hours
    assert support(BATTERY, "The battery lasts longer than 14 hours in the cold.") == 0.6
    assert support(BATTERY, "14 hours.") == 1
    assert support(BATTERY, "15 hours.") == 0
    assert not supports(BATTERY, "The battery lasts 14 weeks.")
    assert not supports(BATTERY, "The battery lasts 20 hours in use.")
    assert supports(BATTERY, "The battery lasts 840 minutes in use.")


def test_the_quote_is_the_most_alike_unit():
    start, end = best_quote(BATTERY, "Flat cell")
    assert BATTERY.text[start:end] == "The cell is flat."


def test_the_refusal_has_no_citations():
    checked = check_citations(f"{NOTHING_FOUND} [1][7]", SOURCES)
    assert checked.text == NOTHING_FOUND
    assert checked.citations == ()
    assert checked.removed_markers == (7,)
    assert checked.unsupported_sentences == ()


def test_the_page_is_that_of_the_quote():
    text = "First here. Second there."
    first = passage(text[:11], start=100, page=1, chunk="a")
    second = passage(text[12:], start=112, page=2, rank=2, chunk="b")
    joined = [join([(0, first), (1, second)])]
    [citation] = check_citations("Second there. [1]", joined).citations
    assert (citation.chunk_id, citation.page, citation.quote) == ("b", 2, "Second there.")

    def page_of(doc_id, offset):
        return 7 if (doc_id, offset) == ("doc", 112) else None

    assert check_citations("Second there. [1]", joined, page_of).citations[0].page == 7
    assert check_citations("First here. [1]", joined, page_of).citations[0].page == 1


def test_without_pages_there_is_no_page():
    [citation] = check_citations("It is red. [1]", [source("It is red.", page=None)]).citations
    assert citation.page is None


def test_without_sources_every_marker_is_removed():
    checked = check_citations("Some claim. [1]", [])
    assert checked.text == "Some claim."
    assert checked.removed_markers == (1,)
    assert checked.unsupported_sentences == ("Some claim.",)


def test_the_quotes_of_an_extractive_answer_are_its_sentences_verbatim():
    text = (
        "Intro\n\nThe pump, shown in [12], delivers\n30 litres. It opens at 5 bar (see 3.2). "
        "Dr. Smith tested it. The cell is red.\n\n| Part | Price |\n|---|---|\n| Pump | $40 |"
    )
    made = source(text)
    for candidate in candidates(made):
        [line] = render([Pick(candidate, 1.0, 1.0)])
        checked = check_citations(line, [made])
        assert checked.text == line
        assert [c.quote for c in checked.citations] == [text[candidate.start : candidate.end]]
        assert checked.removed_markers == checked.unsupported_sentences == ()
    assert len(candidates(made)) == 5


@given(
    st.lists(
        st.sampled_from(
            ["The battery lasts 14 hours.", " ", "[1]", "[2]", "[3, 1]", "[44]", "\n", "Bananas!",
             "| R7 | 310 g |", "# Head\n\n", "- item one\n"]
        ),
        max_size=12,
    )
)  # fmt: skip
def test_only_known_markers_survive_and_quotes_are_verbatim(pieces):
    checked = check_citations("".join(pieces), SOURCES)
    for citation in checked.citations:
        assert citation.quote in SOURCES[citation.marker - 1].text
        assert f"[{citation.marker}]" in checked.text
    assert "[3" not in checked.text
    assert "[44]" not in checked.text
    assert set(checked.removed_markers) <= {3, 44}
    assert check_citations(checked.text, SOURCES).removed_markers == ()


def test_a_row_without_a_full_stop_keeps_its_own_marker() -> None:
    row = "Product: Terra 7; Warranty: 24 months"
    sentence = "The repaired part is warranted for six months."
    sources = [source(row, 1), source(sentence, 2)]
    checked = check_citations(f"{row} [1]\n{sentence} [2]", sources)
    assert checked.text == f"{row} [1]\n{sentence} [2]"
    assert [(c.marker, c.quote) for c in checked.citations] == [(1, row), (2, sentence)]
