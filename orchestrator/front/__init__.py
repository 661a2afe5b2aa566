"""The front door: HTTP towards clients, `Submit` and `Emit` towards verifiers. A process of its own, without torch."""
