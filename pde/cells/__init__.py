"""The equation on cells: reconstruction, upwind and Scharfetter-Gummel fluxes, states at rest."""
