"""Moving KV pages, and the rows of hidden states that lie beside them, from one node to another."""
