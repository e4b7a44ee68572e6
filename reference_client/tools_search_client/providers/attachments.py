"""Pictures and files that a user sends with a text."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from tools_search_client.errors import LocalError


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture or a file: its bytes, or a URL where the provider finds it."""

    mime_type: str
    """Such as `image/png` or `application/pdf`."""
    data: bytes | None = None
    url: str | None = None
    name: str = "file"

    def __post_init__(self) -> None:
        """Refuse what is neither bytes nor a URL, or both."""
        if (self.data is None) is (self.url is None):
            raise LocalError("an attachment has either `data` or a `url`")

    @property
    def base64(self) -> str:
        """The bytes in standard base64; empty where there is a URL."""
        return base64.b64encode(self.data or b"").decode()

    @property
    def link(self) -> str:
        """The URL; one that has the bytes in it where there is none."""
        return self.url or f"data:{self.mime_type};base64,{self.base64}"

    def refused(self, provider: str, accepted: str) -> LocalError:
        """Return the error for a provider that has no form for it."""
        form = "a URL of type" if self.url else "data of type"
        return LocalError(f"{provider} has no form for {form} {self.mime_type!r} from the user: give {accepted}")
