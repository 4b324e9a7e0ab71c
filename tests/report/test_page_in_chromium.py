"""The page in a real browser: it renders, complains of nothing, filters, and has no serious accessibility faults."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_agents.report.as_html import comparison_html, report_html
from beam_agents.report.build import report_of
from beam_agents.report.contents import Report
from beam_agents.report.gather import Gathering
from tests.report.chromium import chromium_path, open_page
from tests.report.events import call, sample_report

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(chromium_path() is None, reason="Chromium is not installed"),
]

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report()


@pytest.fixture(scope="module")
def page_file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_html(report), "utf-8")
    return path


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None or subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, timeout=120).returncode:
        pytest.skip("axe-core is not to be had from npm")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        source = packed.extractfile("package/axe.min.js")
        assert source is not None
        yield source.read().decode()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
async def test_it_renders_without_a_complaint(page_file: Path, tmp_path: Path, dark: bool, width: int) -> None:
    async with open_page(tmp_path, width=width, dark=dark) as page:
        await page.open(page_file)
        drawn = await page.run("document.querySelectorAll('section > .chart .main-svg').length")
        overflow = await page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert drawn >= 5
        assert overflow <= 0
        assert page.problems == []


async def test_the_filter_leaves_the_matching_rows(page_file: Path, tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('tbody tr, details.activation')].filter(row => !row.hidden)"
    type_in = "const box = document.getElementById('filter'); box.value = {!r}; box.dispatchEvent(new Event('input'))"
    async with open_page(tmp_path) as page:
        await page.open(page_file)
        before = await page.run(f"{shown}.length")
        await page.run(f"{{{type_in.format('ServerError 503')}}}")
        assert await page.run(f"{shown}.map(row => row.firstChild.textContent)") == ["ServerError 503"]
        assert await page.run("document.getElementById('found').textContent") == "1 rows match"
        await page.run(f"{{{type_in.format('')}}}")
        assert await page.run(f"{shown}.length") == before > 20
        assert page.problems == []


async def test_an_activation_opens_with_the_keyboard_and_draws_its_waterfall(page_file: Path, tmp_path: Path) -> None:
    first = "document.querySelector('#slowest details.activation')"
    async with open_page(tmp_path) as page:
        await page.open(page_file)
        await page.run(f"{first}.querySelector('summary').focus()")
        for kind in ("keyDown", "keyUp"):
            await page.send(
                "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
            )
        await page.run(f"new Promise(done => {{ const look = () => {first}.querySelector('.main-svg') ? done() : "
                       "setTimeout(look, 20); look(); }})".replace("}})", "})"))  # fmt: skip
        bars = await page.run(f"{first}.querySelectorAll('.bars .point').length")
        assert bars == await page.run(f"Number({first}.textContent.match(/([0-9]+) calls/)[1])")
        assert page.problems == []


async def test_the_theme_can_be_changed_and_the_charts_follow(page_file: Path, tmp_path: Path) -> None:
    colour = "getComputedStyle(document.querySelector('#spend .xtick text')).fill"
    async with open_page(tmp_path) as page:
        await page.open(page_file)
        light = await page.run(colour)
        await page.run("document.getElementById('theme').click()")
        assert await page.run("document.documentElement.dataset.theme") == "dark"
        assert await page.run(colour) != light
        assert page.problems == []


async def test_two_runs_side_by_side_render(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_text(comparison_html(report, report), "utf-8")
    async with open_page(tmp_path) as page:
        await page.open(path)
        assert await page.run("document.querySelectorAll('.chart .main-svg').length") >= 2
        assert page.problems == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
async def test_axe_finds_no_serious_fault(page_file: Path, tmp_path: Path, axe: str, dark: bool, width: int) -> None:
    async with open_page(tmp_path, width=width, dark=dark) as page:
        await page.open(page_file)
        await page.run("document.querySelector('details.activation').open = true")
        await page.run(axe)
        told = "one => [one.impact, one.id, one.nodes.map(node => node.html.slice(0, 200))]"
        found = await page.run(f"axe.run().then(result => result.violations.map({told}))")
        assert [fault for fault in found if fault[0] in ("serious", "critical")] == []


async def test_a_trace_cannot_bring_code_into_the_page(tmp_path: Path) -> None:
    nasty = "<img src=x onerror=\"document.title='taken over'\"><a href='javascript:1'>x</a>"
    gathering, path = Gathering(), tmp_path / "nasty.html"
    gathering.add_event(call(key=nasty, model=nasty, error=nasty, endpoint=(nasty, nasty)))
    path.write_text(report_html(report_of(gathering)), "utf-8")
    async with open_page(tmp_path) as page:
        await page.open(path)
        await page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        await page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert await page.run("document.title") == "beam-agents report"
        assert await page.run("document.querySelectorAll('main img, main a[href^=javascript]').length") == 0
        assert page.problems == []


async def test_on_paper_it_is_light_and_without_controls(page_file: Path, tmp_path: Path) -> None:
    async with open_page(tmp_path, dark=True) as page:
        await page.open(page_file)
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        await page.send("Emulation.setEmulatedMedia", media="print", features=[dark])
        assert await page.run("getComputedStyle(document.querySelector('.bar')).display") == "none"
        assert await page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len((await page.send("Page.printToPDF"))["data"]) > 10_000
        assert page.problems == []
