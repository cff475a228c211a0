"""What two processes say to each other beneath all groups: who they are, where others live, that they are alive."""
