"""Whatever may arrive at a node: bytes, spoiled frames, and messages that are well-formed and make no sense."""
