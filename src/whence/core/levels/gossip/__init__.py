"""Levels `eventual` and `fifo`: PrCast gossip, in order of arrival or of each sender. See docs/papers/gossip.md."""
