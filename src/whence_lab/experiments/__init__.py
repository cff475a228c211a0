"""The papers' experiments: settings, runs and the shapes they must show."""
