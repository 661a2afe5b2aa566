"""How much one key may ask: requests a second, and requests at once. Pure: whoever calls says the time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """`rate` requests a second, `burst` of them at once after a pause, `concurrent` in flight; 0 is no limit."""

    rate: float = 0.0
    burst: int = 1
    concurrent: int = 0


class Meter:
    """What one key used of its quota."""

    def __init__(self, quota: Quota) -> None:
        self.in_flight = 0
        self._quota = quota
        self._tokens = float(quota.burst)
        self._at = 0.0

    def enter(self, now: float) -> tuple[str, float]:
        """A request begins; or why not ("rate", "concurrent"), and after how many seconds it may be tried again."""
        quota = self._quota
        if quota.concurrent and self.in_flight >= quota.concurrent:
            return "concurrent", 1.0
        if quota.rate:
            refilled = self._tokens + max(0.0, now - self._at) * quota.rate
            self._tokens, self._at = min(float(quota.burst), refilled), now
            if self._tokens < 1.0:
                return "rate", (1.0 - self._tokens) / quota.rate
            self._tokens -= 1.0
        self.in_flight += 1
        return "", 0.0

    def leave(self) -> None:
        """A request that began is over."""
        self.in_flight -= 1
