"""A real browser for the tests of pages: Debian's Chromium, driven by playwright (the fixture `chromium`)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any


class Visit:
    """A page with everything that it complained about or asked for."""

    def __init__(self, chromium: Any, path: Path, **options: Any) -> None:
        self.context = chromium.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.context.close()


def wait_until(page: Any, condition: str, argument: Any = None) -> None:
    """Wait until a condition in JavaScript is true.

    `page.wait_for_function` of older playwrights calls `eval` in the page, which the policy of our pages forbids.
    """
    for _ in range(600):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"Still false after 30 seconds: {condition}")


def colours(picture: bytes) -> int:
    """Count the colours of a picture."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return len(image.convert("RGB").getcolors(maxcolors=1 << 24))
