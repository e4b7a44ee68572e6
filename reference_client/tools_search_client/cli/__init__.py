"""The command `tools-search-client`.

Its modules load the library, and with it the SDK, in the functions that connect, so that neither completion nor help
waits for it. At their top they import its types only.
"""
