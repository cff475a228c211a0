"""When a bundle may be delivered."""
