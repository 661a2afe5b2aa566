"""What the commands do; `orchestrator/cli.py` only says which there are, so that asking for help costs nothing."""
