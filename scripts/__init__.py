"""The command line: thin mains over pde, meshes and validation."""
