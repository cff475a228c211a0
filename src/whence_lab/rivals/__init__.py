"""The rivals we measure ourselves against: CBCAST, Causal Barriers, Delta-Neighbourhood, and the survey's systems
VCube-PS, Scribe, Gryphon, Plumtree and Thicket."""
