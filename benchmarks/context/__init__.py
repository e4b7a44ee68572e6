"""What finding tools on demand saves and costs in front of a model: `python -m benchmarks.context`.

No model is at hand offline. In its place stands a policy (`stand_in.py`) that is deterministic and drives every way of
offering tools alike:

1. It looks whether the tools that the labels call for are all in front of it. If so, it is done: it would call them.
2. If not, it searches with the text of the request, word for word.
3. If they are still not all there, it searches once more, with those words of the request that stand in no definition
   it has been given so far: the part of the request that nothing found so far speaks of.
4. Then it gives up.

The labels decide when it stops and nothing else; in particular they are in no search. A real model words its searches
better than that and may name servers and tools that it reads of; it also may stop too early. So the shares of tools
found are to be compared between ways, and not to be taken for those of a model.
"""
