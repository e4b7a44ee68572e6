"""What every test folder shares: one event loop, chosen once."""

import signal

import pytest


def pytest_configure() -> None:
    """Let programs under test find their signals as they are anywhere, whoever runs the tests.

    What `nohup`, or a shell for its background jobs, has switched off would be switched off for them as well. A handler
    of our own is not inherited.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The SDK's own backend; trio is not a dependency."""
    return "asyncio"
