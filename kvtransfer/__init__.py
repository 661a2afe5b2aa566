"""Moving KV pages and draft seeds between pools. Empty until prefill and decode run on separate nodes."""
