"""Membership: whom to talk to."""
