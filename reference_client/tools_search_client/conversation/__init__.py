"""A conversation that loads tools on demand: pure state between a host's model and its servers.

    definitions.py   a tool as a model sees it
    messages.py      what passes between a host and its conversation
    catalog.py     what the servers offer, and the protocol by which the state asks for more
    partition.py     which tools are loaded from the start, and which are deferred
    shelf.py         what the model has in front of it: a list that only grows
    known_tools.py   the tools whose definitions are at hand: by name, and by rank
    reach.py         what can be found at one moment, here and at the servers
    finding.py       by query, by names, by server
    manifest.py      what the description of `search_tools` says is there
    search_tools.py  the synthetic tool; search_request.py reads its arguments, search_answer.py says what was found
    wording.py       every sentence that a model reads of a single thing
    synthetic.py     the protocol of tools that the host answers itself
    delegation.py    finding tools before the model is called
    pool.py          what is offered, and what of it has to be found
    news.py          what changed under a list that must not change
    desk.py          the list of loaded tools, kept in step with what is offered
    accounting.py    how many tokens definitions are
    statistics.py    what was sent, found and called, and what that saved
    state.py         `Conversation`: all of it together
    listed.py        tools that a host has listed itself
    federated.py     the servers of layer 2

Nothing but `federated.py` knows of connections, and nothing at all of a model's provider.
"""
