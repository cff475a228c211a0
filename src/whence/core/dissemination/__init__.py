"""Dissemination: how a bundle gets to every member."""
