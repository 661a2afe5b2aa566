"""The acceptance rules; their table is `verifier/acceptance.py`."""
