"""Does in a browser what it reads: `python look.py CHROMIUM`, steps as JSON on stdin, what was seen as JSON on stdout.

Runs where Playwright is installed and nothing of ours is. A step is a word and its arguments; see `STEPS`.
"""

import json
import sys
from typing import Any

from playwright.sync_api import (  # type: ignore[import-not-found]  # in its environment
    Page,
    sync_playwright,
)

SECONDS = 60_000


def text(page: Page, selector: str) -> str:
    return str(page.locator(selector).first.inner_text())


STEPS: dict[str, Any] = {
    "open": lambda page, url: page.goto(url) and None,
    "see": lambda page, selector: page.locator(selector).first.wait_for(
        state="attached", timeout=SECONDS
    ),
    "read": lambda page, text: page.get_by_text(text).first.wait_for(timeout=SECONDS),
    "text": text,
    "count": lambda page, selector: page.locator(selector).count(),
    "click": lambda page, selector: page.locator(selector).first.click(),
    "fill": lambda page, selector, value: page.fill(selector, value),
    "press": lambda page, selector, key: page.press(selector, key),
    "scheme": lambda page, scheme: page.emulate_media(color_scheme=scheme),
    "size": lambda page, width, height: page.set_viewport_size({"width": width, "height": height}),
    "shot": lambda page, path: page.screenshot(path=path, full_page=True) and None,
    "say": lambda page, script: page.evaluate(script),
}


def main() -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=sys.argv[1], args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1240, "height": 900}, device_scale_factor=1)
        errors: list[str] = []
        asked: list[str] = []
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        results: list[Any] = []
        for name, *arguments in json.load(sys.stdin):
            results.append(STEPS[name](page, *arguments))
        json.dump({"results": results, "errors": errors, "asked": asked}, sys.stdout)
        browser.close()


if __name__ == "__main__":
    main()
