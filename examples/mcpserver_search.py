"""A searchable server built with decorators: `install` is the only line that concerns search.

Run it over stdio with `python examples/mcpserver_search.py`.
"""

from mcp.server import MCPServer
from mcp_ext_tools_search.server import install

mcp = MCPServer("billing")


@mcp.tool()
def send_invoice(customer: str, amount: int) -> str:
    """Send an invoice to a customer."""
    return f"sent {amount} to {customer}"


@mcp.tool()
def cancel_invoice(number: int) -> str:
    """Cancel an invoice that was sent by mistake."""
    return f"cancelled {number}"


install(mcp)

if __name__ == "__main__":
    mcp.run()
