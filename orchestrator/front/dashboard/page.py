"""The page: markup, style and script of the files beside this one, in one piece that asks for nothing else."""

import base64
import hashlib
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
SCRIPT: Final = "\n".join(
    (_HERE / name).read_text(encoding="utf-8") for name in ("draw.js", "live.js")
)
STYLE: Final = (_HERE / "page.css").read_text(encoding="utf-8")
PAGE: Final = (
    (_HERE / "page.html")
    .read_text(encoding="utf-8")
    .replace("/* page.css */", STYLE)
    .replace("/* draw.js, live.js */", SCRIPT)
)


def _hashed(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashed(SCRIPT)}",
            "style-src 'unsafe-inline'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        )
    ),
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Nothing is loaded from anywhere, and no other script runs, whatever a node calls itself."""
