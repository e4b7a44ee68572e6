"""What a run leaves behind: a verdict, a page on the terminal, and files for programs."""
