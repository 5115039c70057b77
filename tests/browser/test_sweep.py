"""The page of a sweep in a real browser, as the command writes it."""

import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rota.cli.main import main
from tests.browser.conftest import Opener


def test_the_picture_of_a_sweep(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_file = tmp_path / "loads.html"
    jobs = "synthetic:jobs=30,gpus=8,largest=4,longest_seconds=20000"
    words = ["fifo", "tiresias", "--trace", jobs, "--vary", "trace.load=0.5/0.9", "--cluster", "8xV100", "--seeds", "3"]
    monkeypatch.setattr(sys, "argv", ["rota", "sweep", *words, "--out", str(tmp_path / "out"), "--html", str(page_file)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    page = opened(page_file.read_text(encoding="utf-8"), ready=False)
    expect(page.locator("h1")).to_have_text("fifo, tiresias over trace.load")
    for key in ("jct", "queueing", "rho"):
        picture = page.locator(f"#{key} svg")
        expect(picture).to_have_count(1)
        expect(picture.locator("path.interval").first).to_be_attached()
        expect(picture).to_contain_text("tiresias")
    expect(page.locator("#results tbody tr")).to_have_count(4)
    box = page.locator("#jct svg").bounding_box()
    assert box is not None and box["width"] > 400
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
