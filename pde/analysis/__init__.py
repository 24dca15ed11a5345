"""What is read off a measure: clusters and modes."""
