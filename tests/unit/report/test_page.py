"""The picture: its data, its escaping, its honesty about what it leaves out; and a real headless Chromium."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from cvs.checker.classify import Judgement
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.report import page as pages
from cvs.report.audit import audit, audit_events
from cvs.report.hand import judge_events
from cvs.report.page import page_data, run_page
from cvs.report.skeleton import embedded_json
from cvs.report.summary import summarize
from cvs.report.text import screen
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS
from tests.unit.report.sample import EVIL, good, lines, violated


def test_no_value_can_leave_the_data_element() -> None:
    text = embedded_json({"a": EVIL, "b": "&amp;\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["a"] == EVIL


def test_every_operation_has_a_lane_and_violations_point_at_events() -> None:
    found = judge_events(violated())
    data = page_data(found, summarize(found, [], {}))
    kinds = [lane["kind"] for lane in data["lanes"]]
    assert kinds == sorted(kinds, key=["base", "process", "view"].index)
    assert {e["k"] for e in data["events"]} == {"base", "applied", "rejected"}
    drawn = {e["e"] for e in data["events"]}
    assert data["violations"]
    assert {v["event"] for v in data["violations"] if v["event"]} <= drawn
    assert not all(state["ok"] for state in data["strips"][0]["states"])


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    entry = pages._Drawing._entry
    monkeypatch.setattr(pages, "DRAWN", 4)
    monkeypatch.setattr(pages._Drawing, "_entry", lambda *told: made.append(told[1]) or entry(*told))
    found = judge_events(good())
    data = page_data(found, summarize(found, [], {}))
    assert len(data["events"]) == len(made) == 4  # of a large run, what is not drawn is not described either
    assert data["omitted"].startswith("4 of 10 operations")


def test_a_large_run_is_drawn_with_the_verdict_of_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its picture was judged by the exact judge, for minutes, and said less; that of a large recording was empty."""
    monkeypatch.setattr("cvs.report.audit.LARGE", 50)
    monkeypatch.setattr("cvs.report.hand.LARGE", 50)
    monkeypatch.setattr("cvs.report.hand.SMALL", 50)
    monkeypatch.setattr("cvs.report.hand.judge_events", None)
    events = many(100)
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(events))
    document, found = audit([path], picture=True)
    whole, again = audit_events(events, files=[], reference="writers", picture=True)
    assert document["granularities"] == whole["granularities"] == audit([path])[0]["granularities"]
    for each in (found, again):
        assert isinstance(each, Judgement)
        assert page_data(each, document)["omitted"] == "All 100 operations of the run are drawn."


def test_an_order_other_than_the_recorded_one_is_drawn_as_no_failure() -> None:
    """It was orange as a level that is not reached, and counted as a violation, where everything else holds."""
    run = Recorder()
    run.named("other", definition_to_json(VIEWS["rows"]))
    for key in "ab":
        run.base(key, {"k": key, "x": 1, "y": 1})
    for key in "ba":
        run.write(key, {"k": key, "x": 1, "y": 1}, [(key, 0, 1)])
    found = judge_events(run.rest())
    document = summarize(found, [], {})
    data = page_data(found, document)
    assert "otherwise" in {p["verdict"] for g in data["granularities"] for p in g["properties"]}
    assert len(data["beside"]) == 1
    assert not data["violations"]
    told = screen(document, paths="run")
    assert "otherwise" in told
    assert "VIOLATED" not in told


def _browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "no Chromium on this machine: install one (apt-get install chromium) to run this test"
    return found


def _dom(page: Path, folder: Path, fragment: str = "", *, size: str = "1400,900") -> str:
    run = subprocess.run(
        [
            _browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=3000", f"--window-size={size}", "--dump-dom", f"{page.as_uri()}{fragment}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return run.stdout


def _panel(dom: str) -> str:
    found = re.search(r'<aside id="panel"[^>]*>(.*?)</aside>', dom, re.S)
    assert found, dom[:2000]
    return html.unescape(found[1])


def test_a_run_of_middle_size_is_drawn_with_the_verdict_of_the_audit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact judge does not end within hours on views of whole tables, which columns judge."""
    monkeypatch.setattr("cvs.report.hand.SMALL", 50)
    monkeypatch.setattr("cvs.report.hand.judge_events", None)
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(many(100)))
    monkeypatch.setattr("cvs.report.hand._undecided", lambda _: set())
    assert page_data(audit([path], picture=True)[1], audit([path])[0])["omitted"].startswith("All 100 ")


@pytest.mark.slow
def test_in_a_real_browser_it_opens_jumps_and_filters(tmp_path: Path) -> None:
    found = judge_events(violated())
    document = summarize(found, [], {})
    page = tmp_path / "run.html"
    page.write_text(run_page(found, document), encoding="utf-8")
    dom = _dom(page, tmp_path)
    assert '<body data-ready="10">' in dom
    assert "<title>broken" not in dom
    assert "violations" in _panel(dom)
    first = next(v for v in page_data(found, document)["violations"] if v["event"])
    assert f"event {first['event']}" in _panel(_dom(page, tmp_path, f"#e{first['event']}"))
    page.write_text(run_page(found, document, query="v 'b'"), encoding="utf-8")
    assert "1 event of 10" in _dom(page, tmp_path)


@pytest.mark.slow
def test_in_a_real_browser_a_narrow_window_shows_the_time_line_too(tmp_path: Path) -> None:
    """Above the panel, which had all the width but 50 pixels."""
    found = judge_events(violated())
    page = tmp_path / "run.html"
    measured = (
        "<script>document.body.dataset.width = document.getElementById('field').clientWidth;"
        "document.body.dataset.beyond = document.documentElement.scrollWidth - innerWidth</script>"
    )
    page.write_text(run_page(found, summarize(found, [], {})) + measured, encoding="utf-8")
    width = re.search(r'data-width="(\d+)" data-beyond="(-?\d+)"', _dom(page, tmp_path, size="500,900"))
    assert width
    assert int(width[1]) > 400
    assert int(width[2]) <= 0


def _pressed(page: Path, folder: Path, *steps: str) -> list[str]:
    """Press keys one after the other; return what each step says of the page: `key => what`."""
    script = "const key = k => document.dispatchEvent(new KeyboardEvent('keydown', {key: k, bubbles: true}));"
    script += "const told = [];"
    for step in steps:
        pressed, _, said = step.partition(" => ")
        script += f"{''.join(f'key({k!r});' for k in pressed.split())} told.push(String({said}));"
    script += "document.body.dataset.told = JSON.stringify(told)"
    page.write_text(f"{page.read_text(encoding='utf-8')}<script>{script}</script>", encoding="utf-8")
    found = re.search(r'data-told="([^"]*)"', _dom(page, folder))
    assert found
    said: list[str] = json.loads(html.unescape(found[1]))
    return said


@pytest.mark.slow
def test_in_a_real_browser_all_is_reached_by_keys(tmp_path: Path) -> None:
    """Operations had no keys, and no more than 120 pixels were drawn at first."""
    found = judge_events(violated())
    document = summarize(found, [], {})
    page = tmp_path / "run.html"
    page.write_text(run_page(found, document), encoding="utf-8")
    first = next(v["event"] for v in page_data(found, document)["violations"] if v["event"])
    chosen = "document.querySelector('#panel h2').textContent"
    told = _pressed(
        page,
        tmp_path,
        " => $('stage').clientHeight >= $('field').clientHeight",
        f"j => {chosen}",
        f"n p => {chosen}",
        f"n => {chosen}",
        f"Escape => {chosen}",
        "+ => view[1] - view[0] < 1",
        "Home => view[1] - view[0]",
        "/ => document.activeElement.id",
    )
    assert told[0] == "true"
    assert f"event {first} " in told[1]
    assert told[2] == told[1]
    assert told[3] != told[1]
    assert "violation" in told[4]
    assert told[5:] == ["true", "1", "filter"]


@pytest.mark.slow
def test_in_a_real_browser_what_is_left_out_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn of a large run fills the window at first; the whole run shows where nothing is drawn."""
    monkeypatch.setattr(pages, "DRAWN", 40)
    found = judge_events(many(400))
    page = tmp_path / "run.html"
    page.write_text(run_page(found, summarize(found, [], {})), encoding="utf-8")
    began, home = _pressed(page, tmp_path, " => view[1] - view[0]", "Home => X(D.drawn[1]) < inner() / 2")
    assert float(began) < 0.2
    assert home == "true"


@pytest.mark.slow
def test_in_a_real_browser_ten_thousand_events_are_drawn(tmp_path: Path) -> None:
    events = many(10_500)
    found = judge_events(events)
    page = tmp_path / "run.html"
    page.write_text(run_page(found, summarize(found, [], {})), encoding="utf-8")
    assert '<body data-ready="10000">' in _dom(page, tmp_path)


def many(number: int) -> list[object]:
    from cvs.model.definitions import definition_to_json
    from tests.agree.problems import Recorder
    from tests.stories.views import VIEWS

    run = Recorder()
    view = definition_to_json(VIEWS["rows"])
    run.named("many", view)
    for index in range(number // 2):
        key = f"k{index % 200}"
        version = run.base(key, {"k": key, "x": 1, "y": index})
        run.write(key, {"k": key, "x": 1, "y": index}, [(key, version - 1, version)])
    return run.rest()


def test_what_no_certificate_tells_is_not_drawn_as_torn() -> None:
    """Without certificates every state was called torn, of views that are right too, and all of the base lag."""
    bare = [
        msgspec.structs.replace(event, absorbed=()) if isinstance(event, ev.TestAndSetCalled) else event
        for event in good()
    ]
    right, open_end = judge_events(bare), judge_events(bare, budget=1)
    for found, ok in ((right, True), (open_end, None)):
        document = summarize(found, [], {})
        (strip,) = page_data(found, document)["strips"]
        assert {state["ok"] for state in strip["states"]} == {ok}
        assert max(state["lag"] for state in strip["states"]) <= 1
        assert not document["torn_windows"]
