"""Pictures of runs, drawn from the trace as SVG: space-time diagrams, dissemination, trees, tickets, merged streams."""
