"""The vocabulary on the wire, the sans-IO link, and the mesh that carries it."""
