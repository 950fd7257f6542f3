import pytest

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.datasets import Qrel
from rag_cluster.evaluate.matching import match
from rag_cluster.schema import document_id

FILE = "/data/2023/Annual report.pdf"
RECORD = "https://host/page#top"
DOCUMENTS = [
    (document_id(FILE), FILE),
    (document_id(RECORD), f"/data/corpus.jsonl#{RECORD}"),
    (document_id("/data/notes.v2.txt"), "/data/notes.v2.txt"),
    (document_id("s3://bucket/a%20b.md"), "s3://bucket/a%20b.md"),
]


@pytest.mark.parametrize(
    ("corpus_id", "place"),
    [
        (document_id(FILE), 0),
        (FILE, 0),
        ("Annual report.pdf", 0),
        ("2023/Annual report.pdf", 0),
        ("Annual report", 0),
        (RECORD, 1),
        ("notes.v2", 2),
        ("a b.md", 3),
        ("s3://bucket/a%20b.md", 3),
    ],
)
def test_what_a_corpus_id_may_be(corpus_id, place):
    judgements = match([Qrel("q", corpus_id, None, 1)], DOCUMENTS)
    doc_id = DOCUMENTS[place][0]
    assert judgements.relevance == {"q": {(doc_id, None): 1}}
    assert judgements.names == {doc_id: corpus_id}
    assert judgements.unmatched == []


def test_what_the_collection_lacks_still_counts_as_relevant():
    judgements = match([Qrel("q", "notes.v2", 2, 1), Qrel("q", "gone.pdf", 5, 2)], DOCUMENTS)
    assert judgements.relevance == {"q": {(DOCUMENTS[2][0], 2): 1, ("gone.pdf", 5): 2}}
    assert judgements.unmatched == ["gone.pdf"]
    assert judgements.paged == {"q"}


def test_qrels_that_match_nothing():
    with pytest.raises(DatasetError, match=r"none of the 2 documents .*'x\.pdf'.*Annual report"):
        match([Qrel("q", "y.pdf", None, 1), Qrel("q", "x.pdf", None, 1)], DOCUMENTS)
    with pytest.raises(DatasetError, match="it is empty"):
        match([Qrel("q", "y.pdf", None, 1)], [])


def test_a_name_that_two_files_have():
    documents = [
        ("1", "/a/report.pdf"),
        ("2", "/b/report.pdf"),
        ("3", "/b/c.pdf"),
        ("4", "/b/c.md"),
    ]
    for corpus_id in ("report.pdf", "c"):
        with pytest.raises(DatasetError, match=f"'{corpus_id}' .* could be any of 2 documents"):
            match([Qrel("q", corpus_id, None, 1)], documents)
    assert match([Qrel("q", "b/report.pdf", None, 1)], documents).relevance == {
        "q": {("2", None): 1}
    }


def test_a_query_judged_both_ways():
    with pytest.raises(DatasetError, match=r"query 'q' .* by page in one line and by document"):
        match([Qrel("q", "notes.v2", 2, 1), Qrel("q", "a b.md", None, 1)], DOCUMENTS)


def test_each_query_may_be_judged_its_own_way():
    judgements = match([Qrel("p", "notes.v2", 2, 1), Qrel("d", "a b.md", None, 1)], DOCUMENTS)
    assert judgements.paged == {"p"}
