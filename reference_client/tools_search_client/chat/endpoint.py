"""`Endpoint`: which model is used, at which address, with which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from tools_search_client.errors import LocalError

Provider: TypeAlias = Literal["openai", "openai-responses", "anthropic"]
PROVIDERS: Final[tuple[Provider, ...]] = get_args(Provider)

ShownBy: TypeAlias = Literal["provider", "list", "call-tool"]
"""How a model is shown a tool that was found: in the provider's own form, in the list of tools, or in words."""
SHOWN_BY: Final[tuple[ShownBy, ...]] = get_args(ShownBy)

_NO_KEY: Final = "none"
"""Sent to a service that asks for no key, because the SDKs insist on one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model of a provider, or of a compatible service."""

    provider: Provider
    model: str
    key: str = field(repr=False)
    key_name: str
    """The environment variable that holds the key."""
    url: str | None = None
    """`None` is the provider's own address."""

    @property
    def sdk_name(self) -> str:
        """The package of the provider's SDK."""
        return self.provider.partition("-")[0]


def choose_endpoint(
    model: str,
    environment: Mapping[str, str],
    *,
    provider: Provider | None = None,
    url: str | None = None,
    key_name: str | None = None,
) -> Endpoint:
    """Return the endpoint that options and environment mean together.

    Args:
        model: The provider's name of the model.
        environment: Has the key, and the address where `url` is not given: `OPENAI_API_KEY` and `OPENAI_BASE_URL`, or
            the same of `ANTHROPIC`.
        provider: Anthropic for a model called `claude…`, OpenAI for any other, unless given.
        url: The address of the API, up to and with its version.
        key_name: The variable that has the key, where it is another one.

    Raises:
        LocalError: The key is missing where one is needed, or the address is not an HTTP address.
    """
    provider = provider or ("anthropic" if model.startswith("claude") else "openai")
    prefix = "ANTHROPIC" if provider == "anthropic" else "OPENAI"
    address = url or environment.get(f"{prefix}_BASE_URL") or None
    if address is not None and not address.startswith(("http://", "https://")):
        raise LocalError(f"the address {address!r} must begin with http:// or https://")
    name = key_name or f"{prefix}_API_KEY"
    key = environment.get(name, "").strip()
    if not key and key_name is not None:
        raise LocalError(f"the environment has no {name}: put the key of {model!r} there")
    if not key and address is None:
        raise LocalError(f"the environment has no {name}: put the key there, or name its variable by --api-key-env")
    return Endpoint(provider, model, key or _NO_KEY, name, address)
