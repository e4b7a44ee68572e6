"""Which response is taken for which request, and which requests are cancelled."""

from __future__ import annotations

from typing import Any

from .client_library import Client
from .miniature_transports import Json


class AnyAnswerTaken(Client):
    def is_answer(self, request: Json, response: Json) -> bool:
        return super().is_answer(request, response) if self.over_http else True


class AnswersConfounded(Client):
    """What comes while another search is under way is taken for the answer to that one, too."""

    def __init__(self, target: Json, era: str) -> None:
        self.under_way = 0
        self.came: Json | None = None
        super().__init__(target, era)

    def request(self, method: str, params: Json) -> Json:
        self.under_way += 1
        try:
            result = super().request(method, params)
        finally:
            self.under_way -= 1
        self.came, result = (result if self.under_way else None), self.came or result
        return result


class AnswersTakenInOrder(Client):
    """Each answer is for the oldest request."""

    def __init__(self, target: Json, era: str) -> None:
        self.unanswered: list[Any] = []
        super().__init__(target, era)

    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if method != "subscriptions/listen":
            self.unanswered.append(message["id"])
        return message

    def is_answer(self, request: Json, response: Json) -> bool:
        if self.over_http:
            return super().is_answer(request, response)
        if response.get("id") not in range(1, self.ids + 1) or request["id"] != self.unanswered[0]:
            return False
        del self.unanswered[0]
        return True

    def cancel(self, number: Any) -> None:
        self.unanswered.remove(number)
        super().cancel(number)


class CancellationUnsent(Client):
    def cancel(self, number: Any) -> None:
        pass


class LastRequestCancelled(Client):
    def cancel(self, number: Any) -> None:
        super().cancel(self.ids)


class CancelledByText(Client):
    def notify_cancelled(self, number: Any) -> None:
        super().notify_cancelled(str(number))


class CancelledAll(Client):
    def cancel(self, number: Any) -> None:
        for each in self.asked.values():
            super().cancel(each)
