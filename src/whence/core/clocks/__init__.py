"""Clock algebra: how processes tell what came before what."""
