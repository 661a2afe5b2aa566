"""Spans that somebody exported, read again and drawn: what a request spent its time on, and where."""
