"""The page that explains a prefill: what it marks, what it escapes, and that it needs nothing but itself."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import DRAFT, TARGET, prompts
from spvk.explain import Account, chunk_rows, groups, head_rows, page, prompt_html, visible
from spvk.heat import heat_strip, levels
from spvk.gguf import open_gguf
from spvk.specprefill import Decision, Selection, Settings, Structure, Timings, report_dict, spans_of
from spvk.tokenizer import Tokenizer
from test_cli import refused

VOID = {"meta", "link", "br", "img", "input"}
HOSTILE = [b"</div><script>alert(1)</script>", b"<img src=x onerror=alert(1)>", b"\"'&amp; {{ r }} {% x %}"]


class Page(HTMLParser):
    """A page's elements, the prompt's tokens (text, title, whether struck through), the spans' labels."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.tokens, self.labels = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open  # every element is closed, in order

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag not in VOID:
            self.open.append((tag, attrs))
        if tag == "span" and "title" in attrs:
            self.tokens.append({"title": attrs["title"], "class": attrs["class"].split(), "text": "",
                                "struck": any(t == "del" for t, _ in self.open)})

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "span" and "title" in self.open[-1][1]:
            self.tokens[-1]["text"] += data
        if len(self.open) > 1 and self.open[-1][0] == "b" and self.open[-2][1].get("class") == "p":
            if "id" in self.open[-2][1]:  # the legend's has none
                self.labels.append((self.open[-2][1]["id"], data))

    def numbers(self, struck: bool) -> list[int]:
        """The prompt tokens that are struck through, or are not."""
        found = []
        for token in self.tokens:
            words = token["title"].split(",")[0].split()
            first, last = int(words[1]), int(words[-1])
            found += range(first, last + 1) if token["struck"] == struck else []
        return found


def account(pieces, kept=None, importance=None, settings=Settings(), structure=None, status="active", **more):
    """An account of a made-up run on these pieces; `kept` are positions (default: all)."""
    n = len(pieces)
    kept = np.arange(n) if kept is None else np.array(kept)
    chunks = -(-n // settings.chunk)
    selection = Selection(n, kept, np.linspace(0, 1, chunks), np.ones(chunks, bool))
    report = report_dict(
        selection, settings, Timings(1000, 200, 3, 40, 50), tokens=[1], text=more.pop("text", "yes"),
        target="t.gguf", draft="d.gguf", device="a device",
        decision=Decision(status, "because", {"prompt_tokens": n, **more}), structure=structure,
    )
    return Account(report, list(range(100, 100 + n)), pieces, importance, selection.chunk_scores)


def words(n: int) -> list[bytes]:
    return [f" w{i}".encode() for i in range(n)]


# -- the prompt --------------------------------------------------------------------------------------------


PIECES = [*HOSTILE, b" a", b"\n", b"", b"\xf0\x9f", b"\x99\x82", b"\xff", "é".encode()]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=40), st.data())
def test_exactly_the_dropped_tokens_are_struck_through(pieces, data):
    kept = sorted(data.draw(st.sets(st.integers(0, len(pieces) - 1), min_size=1)))
    guard = Settings(guard_first=0, guard_last=0)
    html = Page("<div>" + prompt_html(account(pieces, kept, np.ones(len(pieces)), guard)) + "</div>")
    assert html.numbers(struck=False) == kept
    assert html.numbers(struck=True) == sorted(set(range(len(pieces))) - set(kept))
    assert {tag for tag, _ in html.elements} <= {"div", "span", "del"}
    for token in html.tokens:
        assert token["title"].split(", ")[-3] == ("dropped" if token["struck"] else "kept")


@given(st.text(max_size=60), st.integers(1, 4))
def test_text_survives_whatever_the_cut(text, size):
    data = text.encode()
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    found = list(groups(pieces))
    assert "".join(t for _, _, t in found) == visible(text)
    assert [i for a, b, _ in found for i in range(a, b)] == list(range(len(pieces)))


def test_a_character_over_three_tokens_is_one_group():
    found = list(groups([b"a", b"\xf0", b"\x9f\x99", b"\x82", b"b"]))
    assert found == [(0, 1, "a"), (1, 4, "🙂"), (4, 5, "b")]


def test_bytes_that_are_no_text_are_spelled():
    assert [t for _, _, t in groups([b"a\xff", b"\xe2\x82"])] == ["a\\xff", "\\xe2\\x82"]


def test_a_character_that_the_selection_cuts_is_spelled_on_both_sides():
    html = Page(prompt_html(account([b"x", b"\xc3", b"\xa9", b"y"], [0, 1], settings=Settings(guard_last=0))))
    assert [(t["text"], t["struck"]) for t in html.tokens] == [
        ("x", False), ("\\xc3", False), ("\\xa9", True), ("y", True)]


def test_what_hides_or_reorders_text_is_spelled():
    assert visible("a\x00\x1b[0m\u202eb\u2066\U000e0041") == "a\\x00\\x1b[0m\\u202eb\\u2066\\U000e0041"
    assert visible("a\tb\nc \u200d é 漢 🙂") == "a\tb\nc \u200d é 漢 🙂"


def test_shades_follow_the_rank():
    assert levels(np.arange(100.0)).tolist() == [i * i // 1000 for i in range(100)]
    assert levels(np.ones(7)).tolist() == [0] * 7
    html = Page(prompt_html(account([b"a", b"b", b"\n", b"d"], None, np.array([0.1, 0.4, 0.2, 0.3]))))
    assert [t["class"] for t in html.tokens] == [["h0"], ["h5"], ["h0", "n"], ["h2"]]
    assert html.tokens[1]["title"] == "token 1, id 101, kept, score 0.4, among the top 25 %"


def test_without_scores_nothing_is_shaded():
    html = Page(page(account(words(9), status="disabled")))
    assert [t["class"] for t in html.tokens] == [[]] * 9 and html.numbers(struck=True) == []
    assert html.tokens[3]["title"] == "token 3, id 103, kept"
    assert not any(attrs.get("class") == "chart" for _, attrs in html.elements)


def test_protected_spans_bear_their_reason():
    labels = np.zeros(20, np.int8)
    labels[6:8], labels[12] = 3, 7  # system, control
    kept = [0, 1, 2, 3, 6, 7, 12, 18, 19]
    html = Page(page(account(words(20), kept, np.arange(20.0), structure=Structure(labels))))
    assert html.labels == [("p0", "guard"), ("p6", "system"), ("p12", "control"), ("p18", "guard")]
    assert html.numbers(struck=False) == kept
    links = [attrs["href"] for tag, attrs in html.elements if tag == "a"]
    assert links == ["#p0", "#p6", "#p12", "#p18"]
    assert set(links) <= {"#" + attrs["id"] for _, attrs in html.elements if "id" in attrs}


# -- the page ----------------------------------------------------------------------------------------------


def test_hostile_text_stays_text():
    pieces = HOSTILE * 5
    told = account(pieces, range(9), np.arange(15.0), text=HOSTILE[0].decode(), evil=HOSTILE[1].decode())
    told.report["target"] = HOSTILE[0].decode()
    html = Page(page(told))
    assert [tag for tag, _ in html.elements].count("script") == 1  # the page's own
    assert not {"img", "iframe", "link", "object"} & {tag for tag, _ in html.elements}
    assert not [name for _, attrs in html.elements for name in attrs if name.startswith("on")]
    assert "".join(t["text"] for t in html.tokens).encode() == b"".join(pieces)


def test_the_page_needs_nothing_but_itself():
    text = page(account(words(70), range(40), np.arange(70.0)))
    for sign in ("http:", "https:", "src=", "url(", "@import", "fetch(", "XMLHttpRequest", "style=\""):
        assert sign not in text
    (policy,) = [a["content"] for tag, a in Page(text).elements if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy


def luminance(rgb) -> float:
    """Relative luminance of 0 to 255 sRGB, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(rgb) / 255]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_every_shade(theme):
    """Contrast of kept and of dropped text with its shaded ground: at least 4.5, in both themes."""
    css = (files("spvk") / "templates" / "explain.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z]+): ([^;]+)", light))
    if theme == "dark":
        colours |= dict(re.findall(r"--([a-z]+): ([^;]+)", dark))

    def rgb(name):
        digits = colours[name].lstrip("#")
        digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
        return np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)])

    heat, top = np.array([int(c) for c in colours["heat"].split()]), float(colours["top"])
    for share in (0, 0.11, 0.22, 0.33, 0.44, 0.56, 0.67, 0.78, 0.89, 1):
        ground = luminance(top * share * heat + (1 - top * share) * rgb("box"))
        for text in ("fg", "gone"):
            pair = sorted((ground, luminance(rgb(text))))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, share)


def test_numbers_are_those_of_the_report():
    told = account(words(64), range(16), np.r_[np.full(16, 3.0), np.ones(48)], Settings(chunk=16, keep=0.25),
                   predicted_dense_ms=1234.5, protected={"system": 4})
    text = page(told)
    for expected in ("16 of 64 prompt tokens were read", "25.0 %", "50.0 %", "243 ms", "1,234 ms",
                     "1,000.0 ms", "predicted dense ms</th><td>1,234<", "protected</th><td>system 4",
                     told.report["selection_sha256"], "because",
                     '<li class="changed"><span>chunk</span><span>16</span>',
                     "<li><span>mass</span><span>0.85</span>"):
        assert expected in text
    assert [(c["start"], c["end"], c["kept"]) for c in chunk_rows(told)] == [
        (0, 16, 16), (16, 32, 0), (32, 48, 0), (48, 64, 0)]
    assert chunk_rows(told)[3]["score"] == 1.0 and chunk_rows(told)[0]["text"].startswith("w0 w1 w2")
    bars = [a["class"] for tag, a in Page(text).elements if tag == "rect"]
    assert bars[:4] == ["all", "none", "none", "none"]


def test_heads_show_what_they_gave():
    told = account(words(40), range(16), np.ones(40))
    told = Account(told.report, told.ids, told.pieces, told.importance, told.chunk_scores,
                   np.array([[0.64, 0.0], [0.2, 0.16]]), (3, 7))
    rows = head_rows(told)
    assert [(r["block"], round(r["share"], 9)) for r in rows] == [(3, 64.0), (7, 36.0)]
    assert [[h["shade"] for h in r["heads"]] for r in rows] == [[9, 0], [5, 5]]  # 9 sqrt(.3125) = 5.03, 4.5
    text = page(told)
    assert ('<tr><th scope="row">blk.3</th><td class="num">64.0</td><td class="num h9">64.0</td>'
            '<td class="num h0">·</td></tr>') in text
    assert Page(text).numbers(struck=False) == list(range(16))
    assert head_rows(account(words(40))) == [] and "Layers and heads" not in page(account(words(40)))


def test_unranked_chunks_show_the_mean_importance():
    told = account(words(8), None, np.arange(8.0), Settings(chunk=4), status="fell_back_dense")
    told = Account(told.report, told.ids, told.pieces, told.importance, np.full(2, np.nan))
    assert [c["score"] for c in chunk_rows(told)] == [1.5, 5.5]


def test_scores_of_zero_and_a_single_token():
    for pieces in (words(40), words(1)):
        html = Page(page(account(pieces, None, np.zeros(len(pieces)), status="kept_all")))
        assert html.numbers(struck=False) == list(range(len(pieces)))


def test_two_thousand_tokens_stay_small():
    rng = np.random.default_rng(0)
    kept = np.flatnonzero(rng.random(2000) < 0.5)  # far more runs than any selection has
    told = account(words(2000), kept, rng.random(2000), Settings(chunk=1))
    shares = np.full((36, 32), 1 / 36 / 32)
    told = Account(told.report, told.ids, told.pieces, told.importance, told.chunk_scores, shares, range(36))
    assert len(page(told).encode()) < 2_000_000


# -- the terminal ------------------------------------------------------------------------------------------


def test_the_heat_strip():
    importance = [0, 0, 1, 1, 2, 2, 3, 3]
    assert heat_strip(importance, [1, 1, 0, 0, 1, 0, 1, 1], 4) == ("▁▃▆█", "━·╍━")
    assert heat_strip(importance, np.ones(8), 100) == ("▁▁▃▃▆▆██", "━" * 8)
    assert heat_strip(np.ones(8), np.zeros(8), 3) == ("▁▁▁", "···")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(1, 60))
def test_the_heat_strip_has_its_width(importance, width):
    lines = heat_strip(importance, np.ones(len(importance)), width)
    assert [len(line) for line in lines] == [min(width, len(importance))] * 2


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def tokens_file(tmp_path):
    np.save(tmp_path / "tokens.npy", prompts(256, 1, 1)[0]["tokens"])
    return tmp_path / "tokens.npy"


def test_the_command_writes_what_the_report_says(spvk, tokens_file, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    run = ("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, "-n", "1", "--keep", "0.2")
    status, out, err = spvk(*run, "--protect", "100:103", "--explain", tmp_path / "o.html",
                            "--json", tmp_path / "o.json")
    assert status == 0, err
    text = (tmp_path / "o.html").read_text(encoding="utf-8")
    report = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    html = Page(text)
    assert report["status"] == "active"
    assert [list(s) for s in spans_of(html.numbers(struck=False))] == report["kept_spans"]
    assert len(html.numbers(struck=True)) == 256 - report["kept_tokens"] > 0
    tokenizer = Tokenizer.from_gguf(open_gguf(TARGET).fields)
    assert "".join(t["text"] for t in html.tokens) == tokenizer.decode(np.load(tokens_file).tolist())
    assert ("p100", "caller") in html.labels and report["selection_sha256"] in text
    lines = [line.split() for line in err.splitlines() if line.startswith(("scores", "read"))]
    strip = {line[0]: line[-1] for line in lines}
    assert len(strip["scores"]) == len(strip["read"]) == 60 - 22 and set(strip["read"]) <= set("━╍·")


def test_explain_is_prefill_for_the_page(spvk, tokens_file, tmp_path):
    run = ("-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, "--keep", "0.2", "--json", "-")
    status, out, err = spvk("explain", *run, "-o", tmp_path / "o.html")
    assert status == 0, err
    report, plain = json.loads(out), json.loads(spvk("prefill", *run, "-n", "1")[1])
    assert report["selection_sha256"] == plain["selection_sha256"] and report["tokens"] == plain["tokens"]
    text = (tmp_path / "o.html").read_text(encoding="utf-8")
    shares = [float(s) for s in re.findall(r'blk\.3</th><td class="num">([\d.]+)', text)]
    heads = re.findall(r'<td class="num h\d">([\d.·]+)</td>', text)
    assert shares == [100.0] and len(heads) == 4  # the draft's only attention layer
    assert abs(sum(float(h) for h in heads if h != "·") - 100) < 0.3
    refused(spvk("explain", *run), "--output")
    refused(spvk("explain", *run, "-o", "-"), "--output: found '-'", "the name of a file")
    calibration = tmp_path / "heads.json"
    calibration.write_text("kept")
    for option in ("-o", "--json"):
        named = ("-o", tmp_path / "p.html", option, calibration, "--heads", calibration)
        refused(spvk("explain", "-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, *named), "an input of this run")
    assert calibration.read_text() == "kept"
    short = ("-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, "--min-tokens", "9999", "-o", tmp_path / "o.html")
    status, _, err = spvk("explain", *short)
    assert status == 0 and "scores               none: --mode always scores every prompt" in err


LOADING = {"src", "srcset", "data", "action", "formaction", "background", "poster", "cite", "ping", "style"}


def test_a_page_of_two_thousand_tokens_is_small_and_refers_to_nothing(spvk, tmp_path):
    (prompt,) = prompts(2048, 8, 1)
    np.save(tmp_path / "tokens.npy", prompt["tokens"])
    run = ("-m", TARGET, "-md", DRAFT, "--tokens", tmp_path / "tokens.npy", "--preset", "auto")
    status, _, err = spvk("explain", *run, "-o", tmp_path / "o.html")
    assert status == 0, err
    data = (tmp_path / "o.html").read_bytes()
    assert 100_000 < len(data) < 2_000_000
    text = data.decode()
    for sign in ("http://", "https://", "url(", "@import", "import(", "fetch(", "XMLHttpRequest", "WebSocket"):
        assert sign not in text
    elements = Page(text).elements
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in elements}
    assert not [(tag, name) for tag, attrs in elements for name in attrs if name in LOADING]
    hrefs = {attrs["href"] for _, attrs in elements if "href" in attrs}
    assert hrefs and all(href.startswith("#") for href in hrefs)


def test_without_the_option_there_is_no_strip(spvk, tokens_file):
    status, out, err = spvk("prefill", "-m", TARGET, "--mode", "off", "--tokens", tokens_file, "-n", "1")
    assert status == 0 and "scores" not in err


def test_bad_files_are_refused_before_any_work(spvk, tokens_file, tmp_path):
    run = ("prefill", "-m", "absent.gguf", "-md", "absent.gguf", "--tokens", tokens_file, "--explain")
    refused(spvk(*run, "-"), "--explain: found '-'", "the name of a file")
    refused(spvk(*run, tmp_path), "a directory")
    refused(spvk(*run, tmp_path / "no" / "o.html"), "cannot be written")
    refused(spvk(*run, tokens_file), "an input of this run")
    refused(spvk(*run, tmp_path / "o", "--json", tmp_path / "o"), "the file of --json")
