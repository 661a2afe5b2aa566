"""Real processes, real signals, real clients: what the simulation promises, on this machine."""
