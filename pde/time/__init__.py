"""Time: what a loop asks of a system, steppers, and how long their steps may be."""
