"""The page parses, explains its pictures, and loads nothing."""

import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "img", "source", "br", "link", "input", "hr"}


class Reader(HTMLParser):
    """Collects elements, and checks that they are closed in the right order."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def of(reader: Reader, tag: str) -> list[dict]:
    return [attributes for name, attributes in reader.elements if name == tag]


def test_structure(html):
    reader = read(html)
    assert of(reader, "html") == [{"lang": "en"}]
    assert "A <report> & more" in "".join(reader.words) and "<title>A &lt;report&gt; &amp; more</title>" in html
    assert len(of(reader, "h1")) == 1 and len(of(reader, "main")) == 1
    sections = [attributes["id"] for attributes in of(reader, "section")]
    flows = ["flow-burgers-decaying", "flow-ns-decaying"]
    assert sections == ["verdict", "results", *flows, "measures", "analysis", "method", "runs"]
    assert [a["href"] for a in of(reader, "a")] == ["#verdict", *(f"#{name}" for name in sections)]


def test_ids_are_unique_and_references_lead_somewhere(html):
    reader = read(html)
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)
    assert {first or second for first, second in targets} <= set(ids)
    labelled = {attributes["aria-labelledby"] for _, attributes in reader.elements if "aria-labelledby" in attributes}
    assert labelled <= set(ids)


def test_pictures_have_alternative_texts(html, gallery):
    reader = read(html)
    assert len(of(reader, "img")) == 2 and all(len(a["alt"]) > 30 for a in of(reader, "img"))
    figures = [a for a in of(reader, "svg") if a.get("class") == "figure"]
    assert len(figures) == len(gallery.pictures)
    assert all(a["role"] == "img" and len(a["aria-label"]) > 30 for a in figures)


def test_nothing_is_loaded_from_elsewhere(html):
    for tag, attributes in read(html).elements:
        for name in ("src", "srcset", "href", "data", "action", "poster"):
            value = attributes.get(name) or ""
            assert not value or value.startswith(("#", "data:image/")), f"<{tag} {name}={value[:40]}>"
    assert "@import" not in html and not re.search(r"url\((?!#)", html)
    assert "default-src 'none'" in html  # and the browser is told to refuse


def test_words(html):
    reader = read(html)
    words = " ".join("".join(reader.words).split())
    verdict = words[words.index("Verdict On") :]
    assert verdict.startswith(
        "Verdict On trajectories that it has not seen, the closure beats the coarse grid on 2 of 2"
    )
    assert "12 runs (10 finished) on 2 flows, on NVIDIA H200, jax 0.10.2." in words
    assert "sino evaluate " in words and "blew up 2 of 8" in words
    motion = [a for a in of(reader, "source") if a["media"] == "(prefers-reduced-motion: reduce)"]
    assert len(motion) == 2 and all(a["srcset"].startswith("data:image/png;base64,") for a in motion)
    assert "prefers-color-scheme: dark" in html
    assert all(a.get("tabindex") == "0" for a in of(reader, "div") if a.get("class") == "scroll")  # keyboards scroll


def test_the_page_is_small(html):
    assert len(html) < 3e6
