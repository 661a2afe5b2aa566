"""Token ids in, logits out, for a ragged batch over paged KV; knows no peers, drafts or requests."""
