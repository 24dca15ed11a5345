"""Velocity fields: attention, one-body drifts, prescribed flows, and what is composed of them."""
