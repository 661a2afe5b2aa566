"""Draft heads over paged KV: small models that read the target's hidden states."""
