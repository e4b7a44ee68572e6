"""The command line: judge, replay, report, explain."""
