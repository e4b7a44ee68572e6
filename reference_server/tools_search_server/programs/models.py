"""The options that select a model for ranking by meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from tools_search_hosts import ConfigurationError

if TYPE_CHECKING:
    from tools_search_ranking.semantic import Embedder

_Command = TypeVar("_Command", bound=Callable[..., Any])

_semantic = click.option(
    "--semantic", is_flag=True, help="Rank by meaning too, in English; needs the extra [semantic]."
)
_multilingual = click.option(
    "--multilingual", is_flag=True, help="Rank by meaning too, in sixteen languages; needs the extra [multilingual]."
)


def model_options(command: _Command) -> _Command:
    """Add the options to a command, as `semantic` and `multilingual`."""
    return _semantic(_multilingual(command))


def selected_model(*, semantic: bool, multilingual: bool) -> Embedder | None:
    """Return the model that the options select.

    Raises:
        click.UsageError: They select two.
        ConfigurationError: It is not installed.
    """
    if semantic and multilingual:
        raise click.UsageError("--semantic and --multilingual select different models. Give only one of them.")
    if not semantic and not multilingual:
        return None
    from tools_search_ranking.extras import MissingExtraError
    from tools_search_ranking.semantic.minilm import minilm
    from tools_search_ranking.semantic.universal import universal

    try:
        return universal() if multilingual else minilm()
    except MissingExtraError as error:
        raise ConfigurationError("--multilingual" if multilingual else "--semantic", [str(error)]) from None
