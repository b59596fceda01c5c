"""The page in a real browser: Debian's chromium, driven by its command line.

Copies of the page get a script that looks around and writes what it finds into the title.
"""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (`apt-get install chromium`)")

LISTEN = """<script>
window.complaints = [];
window.addEventListener("error", (e) => complaints.push(String(e.message || e.target.outerHTML).slice(0, 200)), true);
document.addEventListener("securitypolicyviolation", (e) => complaints.push("refused " + e.blockedURI.slice(0, 80)));
console.error = (...words) => complaints.push(words.join(" "));
</script>"""


def browse(*options: str) -> str:
    """Run chromium without a window; what it prints."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def ask(html: str, script: str, folder: Path, *options: str, width: int = 1280):
    """Open the page in a frame of some width, run a script in it that returns a value, and hand that value back.

    A frame, because chromium does not make its window narrower than 500 pixels.
    """
    answer = f"parent.postMessage(JSON.stringify((() => {{ {script} }})()), '*');"
    report = f"<script>window.addEventListener('load', () => setTimeout(() => {{ {answer} }}, 50));</script>"
    inside = html.replace("<head>", f"<head>{LISTEN}", 1).replace("</body>", f"{report}</body>", 1)
    (folder / "inside.html").write_text(inside)
    (folder / "frame.html").write_text(
        "<!DOCTYPE html><script>addEventListener('message', (e) => { document.title = e.data; });</script>"
        f'<iframe src="inside.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
    )
    profile = f"--user-data-dir={folder / 'profile'}"
    page = f"file://{folder / 'frame.html'}"
    found = browse(profile, "--virtual-time-budget=5000", "--window-size=1400,1000", "--dump-dom", *options, page)
    title = re.search(r"<title>(.*?)</title>", found, re.DOTALL)
    assert title is not None, "the page said nothing"
    return json.loads(unescape(title.group(1)))


LOOK_AROUND = """
        const root = document.documentElement;
        const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right >
            innerWidth + 1 && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 80));
        return { complaints, scroll: root.scrollWidth, width: innerWidth, wide,
                 broken: [...document.images].filter((i) => !i.complete || !i.naturalWidth).length };
"""


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_the_page_opens_without_complaints_and_fits(html, tmp_path, width):
    seen = ask(html, LOOK_AROUND, tmp_path, width=width)
    assert seen["complaints"] == [] and seen["broken"] == 0
    assert seen["width"] == width and seen["scroll"] <= width and seen["wide"] == []


def test_the_look_around_can_fail(tmp_path):
    bad = '<script>nonsense()</script><p style="width: 800px">wide</p><img src="https://example.invalid/a.png">'
    page = (
        f"<!DOCTYPE html><html><head><meta name=viewport content='width=device-width'></head><body>{bad}</body></html>"
    )
    seen = ask(page, LOOK_AROUND, tmp_path, width=390)
    assert any("nonsense" in text for text in seen["complaints"]) and len(seen["complaints"]) == 2
    assert seen["scroll"] > 390 and seen["broken"] == 1 and "800px" in seen["wide"][0]


def test_tables_sort_by_click_and_say_so(html, tmp_path):
    script = """
        const table = document.querySelector("#table-results-1d table");
        const heads = [...table.tHead.rows[1].cells];
        const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].firstChild.textContent.trim());
        const state = () => heads.map((head) => head.getAttribute("aria-sort")).join(" ");
        const before = names();
        heads[3].querySelector("button").click();
        const [rising, told] = [names(), state()];
        heads[3].querySelector("button").click();
        const [falling, retold] = [names(), state()];
        heads[0].querySelector("button").click();
        return { before, rising, told, falling, retold, words: names(), after: state(), complaints };
    """
    seen = ask(html, script, tmp_path)
    assert seen["before"][:2] == ["U-Net", "DeepONet"] and seen["before"][-1] == "Coarse grid"
    ranking = ["SINO", "SINO, paper's schedule", "Hyperviscosity", "Coarse grid"]  # by the error on unseen trajectories
    assert seen["rising"][:4] == ranking and seen["falling"][:4] == ranking[::-1]  # what is missing stays at the end
    assert seen["told"].split() == ["none"] * 3 + ["ascending"] + ["none"] * 6
    assert seen["retold"].split()[3] == "descending"
    assert (
        seen["words"][:3] == ["AM-FNO", "Coarse grid", "DeepONet"]
        and seen["after"].split()[:4] == ["ascending"] + ["none"] * 3
    )
    assert seen["complaints"] == []


def test_headings_are_reached_by_keyboard(html, tmp_path):
    script = """
        const button = document.querySelector("#table-results-1d thead button");
        button.focus();
        return { focused: document.activeElement === button, tab: button.tabIndex, tag: button.tagName };
    """
    assert ask(html, script, tmp_path) == {"focused": True, "tab": 0, "tag": "BUTTON"}


def test_animations_can_be_stopped_and_respect_the_reader(html, tmp_path):
    script = """
        const figure = document.querySelector("figure.moving");
        const [image, button] = [figure.querySelector("img"), figure.querySelector("button")];
        const state = () => [image.src.slice(5, 14), button.textContent];
        const first = state();
        button.click();
        return { first, then: state(), shown: !button.hidden };
    """
    assert ask(html, script, tmp_path) == {
        "first": ["image/gif", "Pause"],
        "then": ["image/png", "Play"],
        "shown": True,
    }
    calm = ask(html, script, tmp_path, "--force-prefers-reduced-motion")
    assert calm == {"first": ["image/png", "Play"], "then": ["image/gif", "Pause"], "shown": True}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_light_and_dark(html, tmp_path, theme):
    """Text and figures stand out from the background in both."""
    options = ["--force-dark-mode"] if theme == "dark" else []
    script = """
        const colour = (e, what) => getComputedStyle(e)[what].match(/[\\d.]+/g).slice(0, 3).map(Number);
        const ink = document.querySelector("svg.figure [style*='currentColor']");
        return { back: colour(document.body, "backgroundColor"), text: colour(document.body, "color"),
                 ink: colour(ink, "color"), card: colour(ink.closest("figure"), "backgroundColor") };
    """
    seen = {name: sum(rgb) / 3 for name, rgb in ask(html, script, tmp_path, *options).items()}
    assert (seen["back"] < 40) == (seen["text"] > 200) == (theme == "dark")
    assert abs(seen["ink"] - seen["card"]) > 150
    (tmp_path / "page.html").write_text(html)
    shot = tmp_path / "shot.png"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    browse(profile, *options, "--window-size=1280,900", f"--screenshot={shot}", f"file://{tmp_path / 'page.html'}")
    picture = Image.open(shot).convert("L")
    assert picture.size == (1280, 900)
    assert (picture.getpixel((5, 450)) < 40) == (theme == "dark")
    low, high = picture.getextrema()
    assert high - low > 180  # something can be read
