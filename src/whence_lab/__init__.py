"""What is studied and not shipped to users: rivals, reference versions, planted bugs, experiments of the papers."""
