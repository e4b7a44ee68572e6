"""A FastMCP 4 server that can be searched; what FastMCP hides from a caller is not found by that caller.

FastMCP's own extension API would do on modern connections, but has no way to advertise on legacy ones. So the extension
goes onto the low-level server, for which FastMCP has no public name: its `tools/list` runs FastMCP's middleware,
visibility and authorization, and contains the tools of mounted servers. `on_list_tools` hooks run for every search.

Run it over stdio with `python examples/fastmcp_search.py`.
"""

from fastmcp import FastMCP
from mcp_ext_tools_search.server import install

mcp = FastMCP("billing")


@mcp.tool(tags={"invoices"})
def send_invoice(customer: str, amount: int) -> str:
    """Send an invoice to a customer."""
    return f"sent {amount} to {customer}"


@mcp.tool(tags={"invoices"})
def cancel_invoice(number: int) -> str:
    """Cancel an invoice that was sent by mistake."""
    return f"cancelled {number}"


@mcp.tool(tags={"customers"})
def find_customer(name: str) -> str:
    """Find a customer by name."""
    return f"found {name}"


@mcp.tool(tags={"invoices", "admin"})
def wipe_invoices() -> str:
    """Delete every invoice of every customer."""
    return "wiped"


mcp.disable(tags={"admin"})
install(mcp._mcp_server)  # pyright: ignore[reportPrivateUsage] - no public accessor, see above

if __name__ == "__main__":
    mcp.run(show_banner=False)
