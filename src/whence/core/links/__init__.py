"""What two processes exchange beneath all groups: who they are, where others can be reached, that they are alive."""
