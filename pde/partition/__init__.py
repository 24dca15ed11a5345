"""The log-partition function of a measure, the one nonlocal kernel, and its evaluations."""
