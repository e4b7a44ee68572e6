"""The command line and the programs that it starts."""
