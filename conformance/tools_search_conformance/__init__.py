"""Conformance suite for the `tools/search` extension: judges servers and clients by raw JSON-RPC, without an SDK.

Its packages, each of which only imports earlier ones, except for the parts of `run` that all checks need:

- `wire`: messages, transports, the two protocol eras, and a log of every exchange.
- `catalogs`: the catalogs that fixtures serve, written and generated.
- `run`: declaring and choosing checks, options, baselines, judging one check, the frame of a run.
- `target`: the server under test, and the bench of its checks.
- `checks`: the server checks, by section of the draft.
- `clients`: the driver of a client, the scripted peers that it meets, and the client checks.
- `report`: the verdict, and every report.
- `cli`: the command line.
"""
