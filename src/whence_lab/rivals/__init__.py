"""The rivals we measure ourselves against: CBCAST, Causal Barriers, Delta-Neighbourhood."""
