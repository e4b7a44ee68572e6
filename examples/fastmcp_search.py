"""A searchable FastMCP 4 server. Callers cannot find what FastMCP hides from them.

FastMCP's own extension API works on modern connections, but cannot advertise on legacy ones. So this installs the
extension on the low-level server, for which FastMCP has no public name. Its `tools/list` runs FastMCP's middleware,
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
