"""Pictures, animations, web pages and files for viewers."""
