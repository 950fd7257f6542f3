"""Which questions lean on what was said before: two sets, one that the rules were written with."""

# ruff: noqa: RUF001 - signs of other scripts are what is tested

import pytest

from rag_cluster.answer.leaning import leans

# The rules were written with these at hand, so all of them must hold.
LEANING = """
How do I open it?
What does it cost?
Why?
How much?
And in June?
And for children?
What about roses?
how about the flow
Roses?
What are its limits?
When do they bloom?
Is that allowed?
What does that mean?
Tell me more
Can you give an example?
How do I get there?
Which one is cheaper?
What else?
Are these limits strict?
Does this pump need oil?
How long does it take?
Is it safe?
The latter?
What time does it open?
Is the pump cheaper than that?
Und für Kinder?
Was kostet sie?
Was kostet das?
Wie lange dauert es?
Was ist mit Rosen?
Gilt diese Garantie auch im Ausland?
Et pour les enfants ?
Combien coûte-t-elle ?
Est-ce que cette pompe est chère ?
¿Cuánto cuesta?
¿Y los niños?
¿Qué significa eso?
它多少钱？
为什么？
玫瑰呢？
それはいくらですか
"""
STANDALONE = """
What is the pressure limit of the pump?
When does the garden open?
What is RAG?
Who sells tickets?
Opening hours?
Ticket price for children?
When the pump is hot, how do I open it?
Which pumps lose pressure when they run dry?
Do tulips need water when they bloom?
What is the pump's limit and when is it exceeded?
Is it possible to open the lid while the pump is running?
How long does it take to clean the pump?
Is there a warranty on the pump?
Who are the people that visit the garden?
Is it true that the garden opens in April?
What happens this year in the garden?
And what is the highest pressure that the pump allows?
Explain photosynthesis
Does Apple report its revenue by segment?
Compare the revenue of Apple in 2019 with that of 2020
What if the pump leaks?
How many moons does Jupiter have and what are they called?
Is the red pump the same as the blue pump?
Thanks! When does the garden close in winter?
Wie hoch ist der Druck der Pumpe, wenn sie heiß ist?
Gibt es einen Garten in Ostra?
Was ist das höchste Gebäude der Stadt?
Wo finden Sie die Anleitung zur Pumpe?
Quand la pompe est-elle vidée ?
Y a-t-il un jardin à Ostra ?
¿Cuál es el precio de la entrada para niños?
泵的压力上限是多少？
"""

# These were written afterwards, and nothing was changed for them.
LATER_LEANING = """
Who directed it?
And who plays the villain?
Are there any side effects of that?
Does he have any children?
what about in 2021
Which of these is the most popular?
How does it compare to Elasticsearch?
What were the others?
Where was she born?
can you summarise that in one sentence
More details please
And the year before?
How did the company respond to this?
And what did their competitors do?
Was it successful?
Who else was involved?
how many of them were there
in which country?
Are those figures audited?
Then what happened?
Could you elaborate on the second point?
Is there a cheaper option?
"""
LATER_STANDALONE = """
What is the boiling point of ethanol at 1 atm?
List the revenue of Adobe for fiscal year 2016 in USD millions.
Is Python faster than Java when it comes to startup?
Why do leaves change their colour in autumn?
Who invented the telephone and where did he live?
Define operating margin
Can a landlord raise rent during a lease if it is fixed?
how to install docker on ubuntu
What does CVE-2021-44228 affect?
How many employees does 3M have and where do they work?
Has the company said whether it will raise prices?
What do the authors say about their limitations?
Is it legal to record a phone call in Germany?
What colour is the star with number 12?
Should I take ibuprofen with food?
garden opening times april
What is that thing called on top of a church?
What are the differences between this and the previous release of Kubernetes?
"""


def lines(text):
    return text.strip().splitlines()


@pytest.mark.parametrize("question", lines(LEANING))
def test_it_leans(question):
    assert leans(question)


@pytest.mark.parametrize("question", lines(STANDALONE))
def test_it_stands_alone(question):
    assert not leans(question)


def test_how_well_that_holds_for_others():
    """Four of forty are taken wrongly; docs/service.md says so."""
    missed = [question for question in lines(LATER_LEANING) if not leans(question)]
    wrong = [question for question in lines(LATER_STANDALONE) if leans(question)]
    assert (len(missed), len(wrong)) == (2, 2)


@pytest.mark.parametrize("question", ["", " ", "?!", "...", "\n"])
def test_no_words_say_nothing_by_themselves(question):
    assert leans(question)


def test_a_long_text_takes_no_time():
    assert not leans("the pump " * 2000)
    assert leans("it " * 2000)
