"""A conversation that loads tools on demand: pure state between a host's model and its servers.

catalogue.py     what the servers offer, and the protocol by which the state asks for more
partition.py     which tools are loaded from the start, and which are deferred
shelf.py         what the model has in front of it: a list that only grows
known_tools.py   the tools whose definitions are at hand: by name, and by rank
finding.py       from the arguments of a search to tools, here and at the servers
manifest.py      what the description of `search_tools` says is there
search_tools.py  the synthetic tool itself
wording.py       every sentence that a model reads
synthetic.py     the protocol of tools that the host answers itself
statistics.py    what was sent, found and called, and what that saved
state.py         all of it together
listed.py        tools that a host has listed itself
federated.py     the servers of layer 2
"""
