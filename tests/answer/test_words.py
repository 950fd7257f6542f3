from rag_cluster.answer.words import content_words, numbers, words


def test_words_are_folded_and_numbers_keep_their_points():
    assert words("The R7 weighs 1,234.5 g.") == ["the", "r7", "weighs", "1,234.5", "g"]


def test_cjk_runs_give_bigrams_and_a_single_character_itself():
    assert words("电池可用10小时") == ["电池", "池可", "可用", "10", "小时"]
    assert words("水") == ["水"]


def test_content_words_drop_stop_words_unless_nothing_is_left():
    assert content_words("How long does the battery last?") == {"long", "battery", "last"}
    assert content_words("Who are you?") == {"who", "are", "you"}


def test_numbers_are_compared_without_thousands_commas():
    assert numbers("1,234.5 kg, 20% of 3,456,789 in 2020") == {"1234.5", "20", "3456789", "2020"}
    assert numbers("zwischen 3,5 und \uff14") == {"3,5", "4"}
