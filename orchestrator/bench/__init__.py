"""Measuring the service, and others like it, in one way: one client, the same prompts, in turn on the same machine."""
