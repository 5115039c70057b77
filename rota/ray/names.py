"""Duplicate node names: which of two hosts with the same name is used.

A machine on which Ray was restarted comes back under its name before Ray has noticed that the earlier one is gone. Then the newer
host is used. Two nodes that were given one name by mistake look the same at first, but the first still answers: then the first is
used, and the second is not used until the first is gone.
"""

ASK, WAIT, TELL, REPLACE = "ask", "wait", "tell", "replace"
ASK_EVERY_SECONDS = 2.0
ANSWER_SECONDS = 5.0
"""Time limit for a host to answer who it is, in seconds."""
SURE_SECONDS = 10.0
"""Time for which both hosts must be there before they count as two nodes, in seconds. The agent of an earlier Ray process ends
within seconds. A host on another machine is given up only after this long without an answer."""


class _Pair:
    """Two hosts with one name."""

    def __init__(self, now_s: float) -> None:
        self.since_s = self.answered_s = now_s
        self.asked_s: float | None = None
        """Time at which the first host was asked, while its answer is awaited."""
        self.ask_s = now_s
        self.failed = self.told = False


class OneOfAName:
    """Hosts that have the same name as another host."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str, str], _Pair] = {}
        self._ended: set[str] = set()
        """Hosts whose agent has ended. Ray may not have noticed yet that they are gone, so they get no warning."""

    @property
    def refused(self) -> set[str]:
        """Hosts that are not used at present."""
        return {second for _, _, second in self._pairs}

    def end(self, host: str) -> None:
        self._ended.add(host)

    def ended(self, host: str) -> bool:
        return host in self._ended

    def look(self, name: str, first: str, second: str, *, same_machine: bool, now_s: float) -> str:
        """Return what to do about the second host now: ask the first who it is, wait, warn the operator, or use the second
        instead."""
        pair = self._pairs.setdefault((name, first, second), _Pair(now_s))
        if pair.asked_s is not None and now_s >= pair.asked_s + ANSWER_SECONDS:
            pair.asked_s, pair.failed = None, True
        if pair.failed and (same_machine or now_s >= pair.answered_s + SURE_SECONDS):
            del self._pairs[name, first, second]
            self.end(first)
            return REPLACE
        if pair.asked_s is None and now_s >= pair.ask_s:
            pair.asked_s, pair.ask_s, pair.failed = now_s, now_s + ASK_EVERY_SECONDS, False
            return ASK
        sure = pair.answered_s >= pair.since_s + SURE_SECONDS
        if sure and not pair.told and second not in self._ended:
            pair.told = True
            return TELL
        return WAIT

    def heard(self, name: str, first: str, answer: object, now_s: float) -> None:
        """Note that the first host has answered who it is, or could not (None)."""
        for (named, one, _), pair in list(self._pairs.items()):
            if (named, one) == (name, first) and pair.asked_s is not None:
                pair.asked_s, pair.failed = None, answer is None
                if answer is not None:
                    pair.answered_s = now_s

    def only(self, alive: set[str]) -> None:
        """Forget all hosts that are not alive."""
        self._pairs = {key: pair for key, pair in self._pairs.items() if {key[1], key[2]} <= alive}
        self._ended &= alive
