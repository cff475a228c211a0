"""How a bundle gets to every member."""
