# ruff: noqa: RUF001 - typographic and full-width characters are what is tested
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.errors import ConfigError
from rag_cluster.index import analyzer
from rag_cluster.index.analyzer import Analyzer, load_analyzer


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The running dogs, and a dog's life", ["run", "dog", "dog", "life"]),
        ("What is it?", []),
        ("", []),
        ("state-of-the-art COVID-19", ["state", "art", "covid", "19"]),
        ("don’t O'Neil's 'quoted'", ["o'neil", "quot"]),
        ("$1,577.00 = 1,577 = 1577 = 1,577.0", ["1577"] * 4),
        ("3.14 and 12.5% of 1,234,567.89", ["3.14", "12.5", "1234567.89"]),
        ("2018Q3 10-K v2.60.1", ["2018q3", "2018", "q3", "10", "k", "v2.60.1"]),
        ("1,2,3 end. Next", ["1", "2", "3", "end", "next"]),
        ("run_target", ["run_target", "run", "target"]),
        ("DiffExecutor", ["diffexecutor", "diff", "executor"]),
        ("parseHTMLPage __init__ _x", ["parsehtmlpag", "pars", "html", "page", "init", "x"]),
        ("HTTP Server Dog", ["http", "server", "dog"]),
        ("ﬁle ＦＵＬＬ　１２３", ["file", "full", "123"]),
        ("cafe\u0301 naïve", ["café", "naïv"]),
        ("... --- '' _ ,", []),
        ("x\ud800y\x00z", ["x", "z"]),
    ],
)
def test_english(text: str, terms: list[str]) -> None:
    assert Analyzer("english").tokens(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京都は", ["東京", "京都", "都は"]),
        ("人", ["人"]),
        ("我 们", ["我", "们"]),
        ("AI技術とPython3", ["ai", "技術", "術と", "python3"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("서울특별시 hello", ["서울", "울특", "특별", "별시", "hello"]),
        ("中文，标点。也好", ["中文", "标点", "也好"]),
        ("𠀀𠀁", ["𠀀𠀁"]),
    ],
)
def test_chinese_japanese_and_korean_are_bigrams(text: str, terms: list[str]) -> None:
    assert Analyzer("none").tokens(text) == terms


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("de", "Die Häuser kosten 1.577,00 Euro", ["haus", "kost", "1577", "euro"]),
        ("french", "l'index de l’entreprise", ["index", "entrepris"]),
        ("es", "las casas", ["cas"]),
        ("zh", "我们的人工智能", ["们的", "的人", "人工", "工智", "智能"]),
        ("none", "The Houses", ["the", "houses"]),
        ("hi", "हिन्दी", ["हिन्द"]),
    ],
)
def test_other_languages(language: str, text: str, terms: list[str]) -> None:
    assert Analyzer(language).tokens(text) == terms


def test_marks_stay_with_their_letters() -> None:
    assert Analyzer("none").tokens("हिन्दी عربيَّة") == ["हिन्दी", "عربيَّة"]
    assert len(Analyzer("th").tokens("ภาษาไทยง่าย")) > 4


def test_an_unknown_language_names_the_known() -> None:
    with pytest.raises(ConfigError, match=r"'germann'.*did you mean 'german'.*swedish"):
        Analyzer("germann")


@pytest.mark.parametrize("language", [*analyzer.CODES, *analyzer.CODES.values(), "none"])
def test_every_known_language_works(language: str) -> None:
    assert Analyzer(language).tokens("zyxw 42")


@given(st.text())
def test_ascii_words_are_found_as_all_words_are(text: str) -> None:
    text = text.encode("ascii", "ignore").decode()
    assert analyzer._ASCII_WORD.findall(text) == analyzer._word_pattern().findall(text)


@given(st.text(), st.text())
def test_terms_of_joined_texts_are_those_of_each(left: str, right: str) -> None:
    english = load_analyzer("english")
    assert english.tokens(f"{left}\n{right}") == english.tokens(left) + english.tokens(right)


def test_a_full_cache_begins_anew() -> None:
    cache = analyzer._TermCache(lambda word: (word,), limit=2)
    assert [cache[word] for word in "abca"] == [("a",), ("b",), ("c",), ("a",)]
    assert len(cache) <= 2
