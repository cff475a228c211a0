"""Who is in the group, as far as this member knows."""
