"""The equation for particles: noise, normalisation schemes, causal order, discrete layers."""
