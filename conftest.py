"""What every test folder shares: one event loop, chosen once, and properties that are tested without a clock."""

import gc
import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says what else the machine does, and nothing of the property.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


# What is imported for the tests stays: looking for garbage in it takes two fifths of the time until they begin.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage in what the tests make, and in nothing else."""
    gc.freeze()
    gc.set_threshold(10_000)  # a judge's answers bring hundreds of objects each, hardly any of them in a cycle
    gc.enable()


def pytest_configure() -> None:
    """Let programs under test find their signals as they are anywhere, for any runner of the tests.

    What `nohup`, or a shell for its background jobs, has switched off would be switched off for them as well. A handler
    of our own is not inherited.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="Run the tests marked `thorough` as well.")
    parser.addoption(
        "--share",
        default="1/1",
        metavar="K/N",
        help="Run every N-th of the tests marked `rotating`, beginning with the K-th.",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is thorough, unless it is asked for, and what is in another share, unless tests are named."""
    if any("::" in argument for argument in config.args):
        return
    first, of = map(int, config.getoption("--share").split("/"))
    rotating = [item for item in items if item.get_closest_marker("rotating")]
    left_out = set(rotating) - set(rotating[first - 1 :: of])
    if not config.getoption("--thorough"):
        left_out.update(item for item in items if item.get_closest_marker("thorough"))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The SDK's own backend; trio is not a dependency."""
    return "asyncio"
