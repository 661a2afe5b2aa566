"""The one error that a caller of the engine can cause."""


class EngineError(ValueError):
    """The caller's fault (a row, a folder or a setting), found before anything was changed."""
