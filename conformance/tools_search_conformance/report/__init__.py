"""The reports of a run: the verdict, pages for people, files for programs, and pages about the checks."""
