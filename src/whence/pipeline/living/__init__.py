"""Runs whose members come and go by views (parameter membership = "living"); see docs/papers/views.md."""
