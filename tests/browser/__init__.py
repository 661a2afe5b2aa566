"""The dashboard as a browser shows it: `make browser`.

Playwright has an environment of its own, Chromium is the system's.
"""
