"""What every test folder shares: one event loop, chosen once."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The SDK's own backend; trio is not a dependency."""
    return "asyncio"
