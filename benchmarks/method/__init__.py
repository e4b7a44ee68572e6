"""What finding tools costs with `tools/search`, with a search tool and with listing: `python -m benchmarks.method`.

One gateway over the servers of a data set serves all ways: `tools/search` at its plain endpoint, a search tool at
`/mcp/meta-tools`. Both rank with the same index, and every search is for as many tools, so that the ways find the same
and differ in what it costs. Requests are written and read as JSON over HTTP on this machine, in revision 2026-07-28.

The model is the policy of `benchmarks.context`. What a way adds to it:

- Every task begins cold, with `server/discover`, whose instructions stand before the model.
- A turn is one request to the model. The last is the one in which it calls what it found, or gives up; the calls
  themselves are the same in every way and are not made.
- Where a server's tool searches, the answer is text. If that has no schemas, the model asks for those of the tools that
  it will call. Which these are is read from the labels, which spares it every wrong one.
- Queries end after 1,024 characters, as many as every server accepts.
"""
