"""What a client takes a result for."""

from __future__ import annotations

from .client_faults import fault
from .miniature_client import MODERN, PAGE, Client, Invalid
from .miniature_transports import Json


@fault("legacy-members-checked")
class LegacyMembersChecked(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        if page.get("resultType", "complete") != "complete":
            raise Invalid("an unknown kind of result")
        return page


@fault("legacy-ttl-obeyed")
class LegacyTtlObeyed(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs", 0)
        return ttl if isinstance(ttl, int) else 0


@fault("legacy-ttl-of-zero-obeyed")
class LegacyTtlOfZeroObeyed(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 0 if page.get("ttlMs") == 0 else 30_000


@fault("unknown-members-of-tools-refused")
class UnknownMembersOfToolsRefused(Client):
    def checked(self, result: Json) -> Json:
        if any(isinstance(tool, dict) and "future" in tool for tool in result.get("tools") or ()):
            raise Invalid("unknown members")
        return super().checked(result)


@fault("unknown-members-refused")
class UnknownMembersRefused(Client):
    def checked(self, result: Json) -> Json:
        if "tools" in result and not set(result) <= PAGE:
            raise Invalid("unknown members")
        return super().checked(result)
