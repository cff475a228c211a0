"""What a process remembers across crashes."""
