"""Runs whose members come and go by views (parameter membership = "living") on Spark; see docs/papers/views.md."""
