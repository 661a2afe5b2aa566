"""The deterministic simulation: real nodes, a simulated network, clock and target, one seed a history."""
