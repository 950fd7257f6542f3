"""The page in a real Chromium, over the service in this process."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import PATH, ask, chromium, complete, watched
from page_service import HOSTILE, ingested, running, write_files
from playwright.sync_api import expect

from serve.keys import hash_of

pytestmark = pytest.mark.skipif(
    PATH is None, reason="Chromium is not installed: apt-get install chromium"
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory, ray_session):
    folder = tmp_path_factory.mktemp("page")
    write_files(folder / "files")
    return ingested(folder / "files", folder / "collection")


@pytest.fixture(scope="module")
def service(filled):
    with running(filled) as up:
        yield up


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def new_page(browser):
    with watched(browser) as opened:
        yield opened


@pytest.fixture
def page(new_page, service):
    page = new_page()
    page.goto(service.url)
    return page


def test_an_answer_streams_in_and_is_complete_in_the_end(page, service):
    service.paused.go_on.clear()
    ask(page, "How far from an obstacle must the mast stand?")
    answer = page.locator("#answer-text")
    expect(answer).to_contain_text("The mast")  # the first piece, while the second one waits
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.get_by_role("heading", name="Passages")).to_be_visible()
    assert page.locator(".marker").count() == 0
    service.paused.go_on.set()
    complete(page)
    expect(answer).to_contain_text("ten metres away")
    expect(page.locator(".marker").first).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_text(re.compile("Timings: .* in all"))).to_be_visible()
    expect(page.get_by_text(re.compile("Guardrails: "))).to_be_visible()
    expect(page.locator("#about")).to_contain_text("version v000001")


def test_stop_ends_the_work_and_keeps_what_is_there(page, service):
    service.paused.go_on.clear()
    service.paused.stopped.clear()
    ask(page, "How far from an obstacle must the mast stand?")
    expect(page.locator("#answer-text")).to_contain_text("The mast")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status").first).to_have_text("Stopped.")
    expect(page.locator("#answer-text")).to_contain_text("The mast")
    assert service.paused.stopped.wait(10), "the service went on writing"
    service.paused.go_on.set()


def test_a_citation_opens_its_text_with_the_quote_marked(page):
    ask(page, "When does the rose house open?")
    complete(page)
    marker = page.get_by_role("button", name=re.compile("Citation 1: Garden")).first
    marker.click()
    dialog = page.get_by_role("dialog", name=re.compile("Garden"))
    expect(dialog.locator("mark")).to_have_text("The rose house opens at seven in the morning.")
    expect(dialog.locator("mark")).to_be_in_viewport()
    dialog.get_by_role("button", name="Show what comes before").click()
    expect(dialog.locator(".document")).to_contain_text("🌷🌷🌷🌷🌷🌷🌷🌷")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(marker).to_be_focused()


def test_a_citation_of_a_pdf_opens_the_image_of_its_page(page):
    ask(page, "How far from an obstacle must the mast stand?")
    complete(page)
    page.locator("#sources").get_by_role("button", name=re.compile("ten metres")).first.click()
    dialog = page.get_by_role("dialog")
    image = dialog.get_by_role("img", name="Page 2 of Station handbook")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 300
    expect(dialog.locator("blockquote")).to_contain_text("ten metres away")
    dialog.get_by_role("button", name="Next page").click()
    expect(dialog.get_by_role("img", name="Page 3 of Station handbook")).to_be_visible()
    expect(dialog.get_by_role("button", name="Next page")).to_be_disabled()
    dialog.get_by_role("button", name="Text").click()
    expect(dialog.locator("mark")).to_contain_text("ten metres away")


def test_a_page_that_cannot_be_drawn_is_shown_as_text(page, filled):
    source = filled.parent / "files/handbook.pdf"
    away = source.rename(source.with_suffix(".away"))
    try:
        ask(page, "How far from an obstacle must the mast stand?")
        complete(page)
        page.locator(".marker").first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("status")).to_contain_text("The page cannot be shown: the source")
        expect(dialog.locator("mark")).to_contain_text("ten metres away")
    finally:
        away.rename(source)


def test_filters_are_made_of_the_declared_fields_and_stand_in_the_address(page, new_page):
    add = page.get_by_role("button", name="Add a filter")
    add.click()
    page.get_by_label("Field").select_option("year")
    page.get_by_label("Condition").select_option(label="is at least")
    page.get_by_label("Value").fill("2021")
    add.click()
    page.get_by_label("Field").last.select_option("product")
    page.get_by_label("Condition").last.select_option(label="is one of")
    page.get_by_label("Value").last.fill("pump, hose")
    ask(page, "costs euros", "Search")
    expect(page.locator("#hits h3")).to_have_text(["Pump list"])
    shared = new_page()
    shared.goto(page.url)
    expect(shared.locator("#hits h3")).to_have_text(["Pump list"])
    expect(shared.get_by_label("Value").first).to_have_value("2021")
    page.get_by_role("button", name="Remove this filter").last.click()
    ask(page, "costs euros", "Search")
    expect(page.locator("#hits h3")).to_have_count(2)
    page.go_back()
    expect(page.locator("#hits h3")).to_have_text(["Pump list"])


@pytest.mark.parametrize(
    ("field", "condition", "value", "titles"),
    [
        ("approved", "is", "no", [HOSTILE]),
        ("issued", "is on or after", "2024-01-01", ["Valve list"]),
    ],
)
def test_a_field_has_the_input_of_its_type(page, field, condition, value, titles):
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Field").select_option(field)
    page.get_by_label("Condition").select_option(label=condition)
    control = page.get_by_label("Value")
    if field == "approved":
        control.select_option(label=value)
    else:
        control.fill(value)
    ask(page, "costs euros record", "Search")
    expect(page.locator("#hits h3")).to_have_text(titles)


def test_nothing_found_says_what_may_help(page):
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Field").select_option("year")
    page.get_by_label("Value").fill("1850")
    ask(page, "costs euros", "Search")
    expect(
        page.get_by_text("Nothing was found. Other words may help, or fewer filters.")
    ).to_be_visible()
    ask(page, "What does the pump cost?")
    expect(page.locator("#answer-text")).to_have_text(
        "Nothing in the collection answers this question."
    )


def test_a_title_with_a_script_is_shown_as_text(page):
    ask(page, "harmless record hides", "Search")
    title = page.get_by_role("button", name=HOSTILE)
    expect(title).to_have_text(HOSTILE)
    title.click()
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(HOSTILE)
    page.keyboard.press("Escape")
    ask(page, "A hostile title hides in which harmless record?")
    complete(page)
    expect(page.locator("#sources .title").first).to_have_text(HOSTILE)
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0


def test_search_shows_scores_by_channel_and_no_answer(page):
    ask(page, "valve costs", "Search")
    first = page.locator(".hit").first
    expect(first.get_by_role("button")).to_have_text("Valve list")
    expect(first.locator("dt")).to_have_text(["score", "dense", "bm25"])
    expect(first.locator("dd").nth(2)).to_contain_text(re.compile(r"^\d\.\d+ rank #1$"))
    expect(page.get_by_role("heading", name="Answer")).to_be_hidden()
    assert "mode=search" in page.url
    page.get_by_role("radio", name="Ask").check(force=True)
    expect(page.get_by_role("searchbox")).to_have_accessible_name("Question")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name="Answer")).to_be_visible()


def test_it_is_used_with_the_keyboard_alone(page):
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("radio", name="Ask")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Search")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.type("rose house opens")
    page.keyboard.press("Enter")
    first = page.locator(".hit button").first
    expect(first).to_have_text(re.compile("Garden"))
    while not first.evaluate("button => button === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_be_focused()
    passage = page.locator(".excerpt").first.text_content()
    expect(dialog.locator("mark")).to_have_text(passage)  # to the letter, after many flowers
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(first).to_be_focused()


def test_errors_are_told_in_the_words_of_the_service(page, service):
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Field").select_option("year")
    page.get_by_label("Value").fill("99999999999999999999")
    ask(page, "costs", "Search")
    expect(page.get_by_role("alert")).to_contain_text("year")
    page.get_by_role("button", name="Remove this filter").click()
    service.busy.busy.set()
    try:
        ask(page, "costs", "Search")
        told = expect(page.get_by_role("alert"))
        told.to_contain_text("the retriever has as much to do as it takes at a time")
        told.to_contain_text("wait for 1 second.")
    finally:
        service.busy.busy.clear()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#hits h3").first).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_service_that_asks_for_a_key(new_page, filled, tmp_path):
    keys = tmp_path / "keys.yaml"
    keys.write_text(
        f"- {{name: all, hash: {hash_of('good')}}}\n"
        f"- {{name: pumps, hash: {hash_of('pumps')}, filter: {{product: pump}}}}\n"
    )
    with running(filled, f"service.keys={keys}") as service:
        page = new_page()
        page.goto(f"{service.url}?q=ten+metres+obstacle&mode=search")
        field = page.get_by_label("API key", exact=True)
        expect(field).to_be_focused()
        field.fill("wrong")
        field.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("this API key is not known")
        field.fill("good")
        field.press("Enter")
        page.get_by_role("button", name="Station handbook").first.click()
        expect(page.get_by_role("img", name=re.compile("Page . of Station"))).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Forget the key").click()
        field.fill("pumps")
        field.press("Enter")
        expect(page.locator("#hits h3").first).to_be_visible()
        expect(page.get_by_role("button", name="Station handbook")).to_have_count(0)
        expect(page.locator("#about")).to_have_text("version v000001")


def test_an_empty_collection_is_said_to_be_empty(new_page, tmp_path, ray_session):
    files = tmp_path / "files"
    files.mkdir()
    (files / "blank.txt").write_text("\n")
    with running(ingested(files, tmp_path / "collection")) as service:
        page = new_page()
        page.goto(service.url)
        expect(page.get_by_text("This collection is empty")).to_be_visible()
        ask(page, "anything", "Search")
        expect(page.get_by_text("The collection is empty.")).to_be_visible()


def check(page):
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_hinders_anyone(new_page, service, scheme):
    page = new_page(color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page.goto(f"{service.url}?q=How+far+must+the+mast+stand%3F&where=year:gte:1900")
    page.get_by_role("button", name="Remove this filter").click()
    ask(page, "How far from an obstacle must the mast stand?")
    complete(page)
    for details in page.locator("summary").all():
        details.click()
    check(page)
    page.locator(".marker").first.click()
    expect(page.get_by_role("dialog").get_by_role("img")).to_be_visible()
    check(page)


def test_a_phone_needs_no_sideways_scrolling(new_page, service):
    page = new_page(viewport={"width": 320, "height": 640})
    page.goto(f"{service.url}?q=harmless+record+hides&mode=search&where=approved:eq:false")
    expect(page.locator("#hits h3").first).to_be_visible()
    overhang = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overhang) == 0
    page.locator(".hit button").first.click()
    expect(page.get_by_role("dialog").locator("mark")).to_be_visible()
    assert page.evaluate(overhang) == 0
